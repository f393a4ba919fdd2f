"""From the gradients of shards to those of the optimizer's pieces."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from paro.torch.partition import Layout, local_of


def reduce_scatter(output: torch.Tensor, source: torch.Tensor, group: dist.ProcessGroup) -> Any:
    """The reduce-scatter of one tensor, under the name that this torch has for it. Returns at once.

    Args:
        output: This rank's part.
        source: As many parts as ranks.
        group: The ranks.

    Returns:
        The work.
    """
    call = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    return call(output, source, group=group, async_op=True)


def all_gather(output: torch.Tensor, source: torch.Tensor, group: dist.ProcessGroup) -> Any:
    """The all-gather into one tensor, under the name that this torch has for it. Returns at once.

    Args:
        output: As many parts as ranks.
        source: This rank's part.
        group: The ranks.

    Returns:
        The work.
    """
    call = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    return call(output, source, group=group, async_op=True)


class Reduction:
    """Sums a unit's gradients over micro-batches in fp32, and over the ranks that split its shards.

    Between micro-batches the sums are whole shards, or with `every_sum` this rank's row alone. A
    row ends with one number per parameter: over how many ranks it had a gradient, so that all agree
    which ones the optimizer leaves alone.

    Args:
        name: The unit's.
        layout: How its parameters lie in rows.
        group: The ranks that split the shards: row r is its rank r's; None: this rank alone.
        row: This rank's.
        types: In which sums are sent, and kept.
        every_sum: Whether each micro-batch's sums are reduced.
    """

    def __init__(
        self,
        name: str,  # of the unit
        layout: Layout,
        group: dist.ProcessGroup | None,
        row: int,
        types: tuple[torch.dtype, torch.dtype],  # in which sums are sent, and kept
        every_sum: bool,
    ) -> None:
        self.name = name
        self.layout = layout
        self.group = group
        self.row = row
        self.wire, self.dtype = types
        self.device = local_of(layout.pieces[0].parameter).device
        self.every_sum = every_sum
        self.sums: torch.Tensor | None = None  # rows x (pieces, flags)
        self.row_sum: torch.Tensor | None = None
        self.seen: set[int] = set()  # parameters whose gradient came in this micro-batch
        self.used: set[int] = set()  # ... in this step
        # Work, result, and the source, which nothing may reuse before the work has ended.
        self.in_flight: list[tuple[Any, torch.Tensor, torch.Tensor]] = []

    def add(self, index: int, factor: float) -> None:
        """Takes a parameter's gradient, which the micro-batch has complete, and frees it.

        What is sent is then no larger than the result, whatever its type holds.

        Args:
            index: Of the parameter in the layout.
            factor: What the gradient is multiplied with.
        """
        piece = self.layout.pieces[index]
        gradient = piece.parameter.grad
        assert gradient is not None
        local = local_of(gradient).flatten()
        piece.parameter.grad = None
        if self.sums is None:
            width = self.layout.row_elements + len(self.layout.pieces)
            self.sums = local.new_zeros((self.layout.rows, width), dtype=self.dtype)
        for part, elements in self.layout.parts(piece, self.sums):
            part.add_(local[elements].view_as(part), alpha=factor)
        self.sums[:, self.layout.row_elements + index] = 1.0
        self.seen.add(index)
        self.used.add(index)

    @property
    def complete(self) -> bool:
        """Whether every parameter had its gradient in this micro-batch."""
        return len(self.seen) == len(self.layout.pieces)

    def start(self) -> None:
        """Begins to reduce what was summed. Every rank of the group starts once, with or without sums."""
        width = self.layout.row_elements + len(self.layout.pieces)
        sums = self.sums
        if sums is None:
            sums = torch.zeros((self.layout.rows, width), dtype=self.dtype, device=self.device)
        self.sums = None
        if self.group is None:
            self.in_flight.append((None, sums[0], sums))
            return
        row = torch.empty(width, dtype=self.wire, device=self.device)
        source = sums.to(self.wire).view(-1)
        self.in_flight.append((reduce_scatter(row, source, self.group), row, source))

    def finish(self) -> None:
        """Waits for what was started; the row's sum has it then."""
        for work, row, _ in self.in_flight:
            if work is not None:
                work.wait()
            total = row.to(self.dtype)
            self.row_sum = total if self.row_sum is None else self.row_sum.add_(total)
        self.in_flight.clear()

    def gradient_of(self, index: int) -> torch.Tensor | None:
        """The sum for this rank's elements of a parameter, after finish().

        Args:
            index: Of the parameter in the layout.

        Returns:
            A view of the row's sum; None where no rank had a gradient.
        """
        if self.row_sum is None:
            return None
        # Only what this rank lacks has to be looked up, which waits for a GPU.
        if index not in self.used and not self.row_sum[self.layout.row_elements + index]:
            return None
        piece = self.layout.pieces[index]
        first, last = piece.range_of(self.row)
        return self.row_sum[piece.offset : piece.offset + last - first]

    def clear(self) -> None:
        """Drops all sums, also those under way: the other ranks of the group count on their end."""
        for work, _, _ in self.in_flight:
            if work is not None:
                work.wait()
        self.in_flight.clear()
        self.sums = self.row_sum = None
        self.seen.clear()
        self.used.clear()
