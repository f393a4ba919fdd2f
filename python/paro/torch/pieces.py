"""How the ranks that hold the same shards of a unit split them.

Every shard, flattened, is cut into as many pieces of equal size as there are such ranks (the last
ones shorter or empty). A row has one piece of each parameter; rank r of them owns row r."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Piece:
    """One parameter's part of the rows. `size`: elements of a piece; `offset`: where it lies in a row."""

    name: str
    parameter: nn.Parameter
    elements: int
    offset: int
    size: int

    def range_of(self, row: int) -> tuple[int, int]:
        """Which elements of the flattened shard row `row` has."""
        first = min(row * self.size, self.elements)
        return first, min(first + self.size, self.elements)


class Layout:
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
        """Views of `rows` that hold the piece's parameter, each with its elements of the shard."""
        if piece.elements == piece.size * self.rows:
            yield rows[:, piece.offset : piece.offset + piece.size], slice(None)
            return
        for row in range(self.rows):
            first, last = piece.range_of(row)
            if first < last:
                yield rows[row, piece.offset : piece.offset + last - first], slice(first, last)


def local_of(tensor: torch.Tensor) -> torch.Tensor:
    """The shard that this rank holds, itself: what is written there is in the parameter."""
    with torch.no_grad():
        local: torch.Tensor = tensor.to_local()  # type: ignore[attr-defined]
    return local
