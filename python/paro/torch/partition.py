"""How the ranks that hold the same shards of a unit split them.

Every shard, flattened, is cut into as many pieces of equal size as there are such ranks (the last
ones shorter or empty). A row has one piece of each parameter; rank r of them owns row r.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Piece:
    """One parameter's part of the rows.

    Attributes:
        name: The parameter's.
        parameter: The sharded parameter.
        elements: Of this rank's shard.
        offset: Where the piece lies in a row, in elements.
        size: Elements of a piece.
    """

    name: str
    parameter: nn.Parameter
    elements: int
    offset: int
    size: int

    def range_of(self, row: int) -> tuple[int, int]:
        """Which elements of the flattened shard a row has.

        Args:
            row: From 0.

        Returns:
            The first one, and one past the last.
        """
        first = min(row * self.size, self.elements)
        return first, min(first + self.size, self.elements)


class Layout:
    """How the parameters of a unit lie in rows.

    Args:
        parameters: With their names, in the order that all ranks have.
        rows: Ranks that hold the same shards.
    """

    def __init__(self, parameters: list[tuple[str, nn.Parameter]], rows: int) -> None:
        self.rows = rows
        self.pieces: list[Piece] = []
        offset = 0
        for name, parameter in parameters:
            elements = local_of(parameter).numel()
            size = -(-elements // rows)
            self.pieces.append(Piece(name, parameter, elements, offset, size))
            offset += size
        self.row_elements = offset

    def parts(self, piece: Piece, rows: torch.Tensor) -> Iterator[tuple[torch.Tensor, slice]]:
        """Where a parameter's elements are in rows.

        Args:
            piece: The parameter's.
            rows: A tensor of (rows, at least row_elements).

        Yields:
            Views of `rows`, each with its elements of the shard.
        """
        if piece.elements == piece.size * self.rows:
            yield rows[:, piece.offset : piece.offset + piece.size], slice(None)
            return
        for row in range(self.rows):
            first, last = piece.range_of(row)
            if first < last:
                yield rows[row, piece.offset : piece.offset + last - first], slice(first, last)


def local_of(tensor: torch.Tensor) -> torch.Tensor:
    """The shard that this rank holds, itself: what is written there is in the parameter.

    Args:
        tensor: A DTensor.

    Returns:
        A plain tensor on the same memory.
    """
    with torch.no_grad():
        local: torch.Tensor = tensor.to_local()  # type: ignore[attr-defined]
    return local
