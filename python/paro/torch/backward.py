"""Backward passes: what of them is reduced when, in one order on all ranks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import nn

from paro.torch.fsdp_private import reduces
from paro.torch.reduction import Reduction
from paro.torch.sharding import Unit, units_of

if TYPE_CHECKING:
    from paro.torch.optimizer import Optimizer


class Backward:
    """The passes of a model, from one step of its optimizer to the next.

    Reductions start from the last unit to the first, as backward completes them. One that is not
    complete holds back those behind it until the pass has ended: where a rank's pass takes another
    way, its reductions would else be paired with others of its peers. Passes that microbatch() does
    not mark end with the step; what came after a unit's reduction had started is reduced then, if it
    came on any rank.
    """

    def __init__(self, reductions: list[Reduction]) -> None:
        self.reductions = reductions[::-1]
        self.waiting = list(self.reductions)
        self.last = True  # whether this pass is its step's last one
        self.marked = False  # whether microbatch() says where it ends
        self.optimizer: Callable[[], Optimizer | None] = lambda: None
        self.unreduced = 0  # passes since the last one that was marked as last
        self.begun = False  # whether a marked step has begun that its last pass has not ended
        self.ended = False  # whether the last pass has ended: all reductions have started

    def _reduces(self, reduction: Reduction) -> bool:
        return self.last or reduction.every_sum

    def arrives(self) -> None:
        """Before a gradient is added."""
        if not self.marked:
            self.ended = False

    def completed(self) -> None:
        while self.waiting and self.waiting[0].complete:
            first = self.waiting.pop(0)
            if self._reduces(first):
                first.start()

    def end(self) -> None:
        """Starts what the pass has left, and what came after its unit had been started."""
        for reduction in self.waiting:
            if self._reduces(reduction):
                reduction.start()
        self.ended = self.last
        again = [self._reduces(each) and each.sums is not None for each in self.reductions]
        if not self.marked:
            again = self._on_any_rank(again)
        for reduction, more in zip(self.reductions, again, strict=True):
            if more:
                reduction.start()
        for reduction in self.reductions:
            reduction.seen.clear()
            if reduction.every_sum:
                reduction.finish()
        self.waiting = list(self.reductions)

    def _on_any_rank(self, mine: list[bool]) -> list[bool]:
        group = self.reductions[0].group if self.reductions else None
        if group is None:
            return mine
        flags = torch.tensor(mine, dtype=torch.int32, device=self.reductions[0].device)
        dist.all_reduce(flags, dist.ReduceOp.MAX, group=group)
        return [bool(flag) for flag in flags.tolist()]

    def finish(self, what: str) -> None:
        """Before the optimizer looks at the gradients."""
        if self.unreduced > 0:
            raise RuntimeError(
                f"paro: {what} after {self.unreduced} micro-batches, none of them marked as the last; "
                "run the last one of each step in microbatch(model, last=True)"
            )
        if not self.ended:  # passes that microbatch() did not mark
            self.end()
        for reduction in self.reductions:
            reduction.finish()

    def clear(self) -> None:
        for reduction in self.reductions:
            reduction.clear()
        self.waiting = list(self.reductions)
        self.unreduced = 0
        self.begun = self.ended = False


def _tell_fsdp(unit: Unit, last: bool) -> None:
    strategy, module = unit.strategy, unit.module
    if strategy.keeps_unsharded:
        module.set_reshard_after_backward(last, recurse=False)
    if strategy.reduces_last_only:
        module.set_requires_gradient_sync(last, recurse=False)
    elif unit.shard_mesh.ndim == 2:
        module.set_requires_all_reduce(last, recurse=False)


@contextlib.contextmanager
def microbatch(model: nn.Module, *, last: bool) -> Iterator[None]:
    """Around the forward and backward pass of a micro-batch: `last` for the last one of a step.

    Passes of a step in which none is marked are summed until the step, as torch does: right, and with
    more communication. Mark all passes of a step, or none.
    """
    units = units_of(model, "microbatch")
    found = dict.fromkeys(unit.backward for unit in units)  # several where parts have their own optimizers
    backwards = [backward for backward in found if backward is not None]
    if len(backwards) < len(found):
        raise RuntimeError("microbatch: make paro.torch.Optimizer for this model first")
    if not all(reduces(unit.module) for unit in units):
        raise RuntimeError(
            "microbatch: set_requires_gradient_sync(False) or set_requires_all_reduce(False) is in force, and "
            "microbatch says itself what is reduced when; use one of them"
        )
    for backward in backwards:
        backward.last, backward.marked, backward.begun = last, True, True
    for unit in units:
        _tell_fsdp(unit, last)
    try:
        yield
        for backward in backwards:
            backward.end()
            backward.unreduced = 0 if last else backward.unreduced + 1
            backward.begun = not last
    finally:
        for backward in backwards:
            backward.last, backward.marked = True, False
        for unit in units:
            _tell_fsdp(unit, True)
