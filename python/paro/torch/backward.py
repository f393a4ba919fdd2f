"""Backward passes: what of them is reduced when, in one order on all ranks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import nn

from paro.torch.agreement import MismatchError, gathered_by_rank, ranks_text
from paro.torch.desync import Usage
from paro.torch.fsdp_private import reduces
from paro.torch.reduction import Reduction
from paro.torch.units import Unit, units_of


class Backward:
    """The passes of a model, from one step of its optimizer to the next.

    Reductions start from the last unit to the first, as backward completes them. One that is not
    complete holds back those behind it until the pass has ended: where a rank's pass takes another
    way, its reductions would else be paired with others of its peers. Passes that microbatch() does
    not mark end with the step; what came after a unit's reduction had started is reduced then, if
    it came on any rank; in marked passes it comes on all ranks or on none.

    Args:
        reductions: One for each unit that has masters apart from its parameters, first unit first.
        units: All units of the optimizer.
        names: Names of parameters, by id.
    """

    def __init__(self, reductions: list[Reduction], units: list[Unit], names: dict[int, str]) -> None:
        self.reductions = reductions[::-1]
        self.usage = Usage(units, names, self._changes)
        self.agreed = False  # whether nothing has come since ranks have compared what they did
        self.waiting = list(self.reductions)
        self.last = True  # whether this pass is its step's last one
        self.marked = False  # whether microbatch() says where it ends
        self.unreduced = 0  # passes since the last one that was marked as last
        self.begun = False  # whether a marked step has begun that its last pass has not ended
        self.ended = False  # whether the last pass has ended: all reductions have started

    def _reduces(self, reduction: Reduction) -> bool:
        return self.last or reduction.every_sum

    def _changes(self) -> None:
        self.agreed = False

    def arrives(self) -> None:
        """Before a gradient is added."""
        self.agreed = False
        if not self.marked:
            self.ended = False

    def begins(self, last: bool) -> None:
        """A pass that microbatch() marks begins.

        Args:
            last: Whether it is its step's last one.
        """
        self.last, self.marked, self.begun = last, True, True
        self.usage.marked = True
        self.usage.begins_pass()

    def completed(self) -> None:
        """A unit has all gradients of this pass: starts what no earlier unit holds back."""
        while self.waiting and self.waiting[0].complete:
            first = self.waiting.pop(0)
            if self._reduces(first):
                first.start()

    def end(self) -> None:
        """The pass has ended: starts what it has left.

        What came after its unit had been started waits for the next pass or, in the last one, for
        finish().
        """
        for reduction in self.waiting:
            if self._reduces(reduction):
                reduction.start()
        self.ended = self.last
        for reduction in self.reductions:
            reduction.seen.clear()
            if reduction.every_sum:
                reduction.finish()
        self.waiting = list(self.reductions)

    def finish(self, what: str) -> None:
        """Before the optimizer looks at the gradients: all reductions have ended after it. Collective.

        Args:
            what: The call, for errors.

        Raises:
            RuntimeError: Micro-batches were marked, none of them as the last.
            MismatchError: Ranks have made different calls or passes. Nothing was changed.
        """
        if self.unreduced > 0:
            raise RuntimeError(
                f"paro: {what} after {self.unreduced} micro-batches, none of them marked as the last; "
                "run the last one of each step in microbatch(model, last=True)"
            )
        marked = self.ended
        if not marked:  # passes that microbatch() did not mark
            self.end()
        if not self.agreed:
            for reduction, again in zip(self.reductions, self._come_again(what, marked), strict=True):
                if again:
                    reduction.start()
            self.agreed = True
        for reduction in self.reductions:
            reduction.finish()

    def _come_again(self, what: str, marked: bool) -> list[bool]:
        """Of each reduction, whether gradients came after it had started, on any rank of its group."""
        mine = [each.sums is not None for each in self.reductions]
        (_, unmarked), *found = self.usage.agreed(what, [int(not marked), *map(int, mine)])
        if not unmarked and any(least != most for least, most in found):
            self._raise_uneven(what, mine)
        return [bool(most) for _, most in found]

    def _raise_uneven(self, what: str, mine: list[bool]) -> None:
        units = [each.name for each, again in zip(self.reductions, mine, strict=True) if again]
        by_rank = gathered_by_rank((self.usage.number, units), self.usage.mesh)
        number, named = next(each for each in by_rank.values() if each[1])
        with_it = [rank for rank, (_, units) in by_rank.items() if units]
        without = [rank for rank, (_, units) in by_rank.items() if not units]
        raise MismatchError(
            f"{what}: unit {named[0]} had another backward pass in microbatch(last=True), pass {number} of the "
            f"step, after its gradients were reduced, on {ranks_text(with_it)}, and none on "
            f"{ranks_text(without)}. Nothing was changed. Give each backward pass a microbatch of its own, with "
            "last=True for the last one, or add up the losses and call backward once, the same on all ranks"
        )

    def clear(self) -> None:
        """Drops all gradients: a step has ended, or was given up. Waits for reductions under way."""
        for reduction in self.reductions:
            reduction.clear()
        self.usage.clear()
        self.waiting = list(self.reductions)
        self.unreduced = 0
        self.begun = self.ended = self.agreed = False


def backwards_of(units: list[Unit], what: str) -> list[Backward]:
    """The passes that units take part in; several where parts have optimizers of their own.

    Args:
        units: Of a model.
        what: The call, for errors.

    Returns:
        Each once.

    Raises:
        RuntimeError: A unit has no optimizer yet.
    """
    found = dict.fromkeys(unit.backward for unit in units)
    backwards = [each for each in found if isinstance(each, Backward)]
    if len(backwards) < len(found):
        raise RuntimeError(f"{what}: make paro.torch.Optimizer for this model first")
    return backwards


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
    """Around the forward and backward pass of a micro-batch.

    Passes of a step in which none is marked are summed until the step, as torch does: right, and
    with more communication. Mark all passes of a step, or none.

    Args:
        model: A model under fully_shard that has its Optimizer.
        last: Whether it is the last one of its step; the same on all ranks.

    Yields:
        Nothing.

    Raises:
        ValueError: No module of the model was given to fully_shard.
        RuntimeError: There is no Optimizer yet, or FSDP2's own switches hold gradients back.
    """
    units = units_of(model, "microbatch")
    backwards = backwards_of(units, "microbatch")
    if not all(reduces(unit.module) for unit in units):
        raise RuntimeError(
            "microbatch: set_requires_gradient_sync(False) or set_requires_all_reduce(False) is in force, and "
            "microbatch says itself what is reduced when; use one of them"
        )
    for backward in backwards:
        backward.begins(last)
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
            backward.last, backward.marked, backward.usage.marked = True, False, False
        for unit in units:
            _tell_fsdp(unit, True)
