"""A tensor of which a rank has any flat range: as rectangles, the way distributed checkpoints ask."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
)
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType

Rectangle = tuple[tuple[int, ...], tuple[int, ...]]  # offsets, sizes


def rectangles(shape: Sequence[int], first: int, last: int) -> list[Rectangle]:
    """What covers a range of a box's flattened elements: in their order, and each without a gap.

    At most one with whole rows, and parts of the rows before and after.

    Args:
        shape: The box.
        first: The range's first element.
        last: One past its last element.

    Returns:
        Offsets and sizes of each rectangle, one number for each dimension; empty for an empty
        range.
    """
    if first >= last:
        return []
    if not shape:
        return [((), ())]
    row = math.prod(shape[1:])

    def inside(index: int, begin: int, end: int) -> list[Rectangle]:
        parts = rectangles(shape[1:], begin, end)
        return [((index, *offsets), (1, *sizes)) for offsets, sizes in parts]

    first_row, last_row = first // row, (last - 1) // row
    if first_row == last_row and last - first < row:
        return inside(first_row, first - first_row * row, last - first_row * row)
    found = []
    if first % row != 0:
        found += inside(first_row, first % row, row)
        first_row += 1
    whole = last // row - first_row
    if whole > 0:
        origin = (first_row, *(0 for _ in shape[1:]))
        found.append((origin, (whole, *shape[1:])))
    if last % row != 0:
        found += inside(last_row, 0, last % row)
    return found


class TensorPieces(torch.Tensor):
    """Looks like the whole tensor; `flat` is what this rank has of it, and is written to by a load.

    Attributes:
        flat: This rank's elements, in one dimension.
        box: Where in the whole tensor the shard lies: offsets and sizes.
        first: `flat` begins with this element of the flattened shard.
    """

    flat: torch.Tensor
    box: Rectangle
    first: int

    @staticmethod
    def __new__(
        cls, flat: torch.Tensor, shape: Sequence[int], box: Rectangle, first: int
    ) -> TensorPieces:
        """Makes it of memory that stays the caller's. It has none of its own."""
        made: TensorPieces = torch.Tensor._make_wrapper_subclass(
            cls, tuple(shape), dtype=flat.dtype, device=flat.device
        )
        made.flat, made.box, made.first = flat, box, first
        return made

    def __init__(self, *_: object) -> None:
        super().__init__()

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"TensorPieces({tuple(self.shape)}, {self.dtype}, rectangles {self._rectangles()})"

    def _rectangles(self) -> list[Rectangle]:
        origin, shape = self.box
        return [
            (tuple(a + b for a, b in zip(origin, offsets, strict=True)), sizes)
            for offsets, sizes in rectangles(shape, self.first, self.first + self.flat.numel())
        ]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Has what copies element by element (detach, clone, to, copy_, empty_like) work on the pieces.

        So does what makes room for a copy: distributed checkpoints copy before they save in the
        background.
        """
        own = next(each for each in args if isinstance(each, TensorPieces))
        plain = [each.flat if isinstance(each, TensorPieces) else each for each in args]
        if func is torch.ops.aten.new_empty.default and tuple(args[1]) == tuple(own.shape):
            plain[1] = own.flat.shape
        result = func(*plain, **(kwargs or {}))
        if not isinstance(result, torch.Tensor) or result.shape != own.flat.shape:
            raise NotImplementedError(f"paro: {func} does not work on pieces of a tensor")
        return cls(result, own.shape, own.box, own.first)

    # What torch.distributed.checkpoint asks of a tensor that is spread over ranks.

    def __create_chunk_list__(self) -> list[ChunkStorageMetadata]:
        return [
            ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes))
            for offsets, sizes in self._rectangles()
        ]

    def __create_write_items__(self, fqn: str, _: Any) -> list[WriteItem]:
        properties = TensorProperties.create_from_tensor(self.flat)
        return [
            WriteItem(
                index=MetadataIndex(fqn, chunk.offsets),
                type=WriteItemType.SHARD,
                tensor_data=TensorWriteData(chunk=chunk, properties=properties, size=self.size()),
            )
            for chunk in self.__create_chunk_list__()
        ]

    def __get_tensor_shard__(self, index: MetadataIndex) -> torch.Tensor:
        begin = 0
        for chunk in self.__create_chunk_list__():
            elements = math.prod(chunk.sizes)
            if chunk.offsets == index.offset:
                return self.flat[begin : begin + elements].view(chunk.sizes)
            begin += elements
        raise ValueError(f"{index.fqn}: this rank has no piece at {index.offset}")
