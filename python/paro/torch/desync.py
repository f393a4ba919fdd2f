"""Which collectives of which units a rank has made since the last step.

The ranks that share them must have made the same ones, or gathered and summed what does not belong
together. FSDP2 gathers a unit when it is called, and reduces those of its parameters that have a
gradient. A rank that calls another unit, or uses another parameter of the same shape, meets its
peers' collective all the same, and nothing fails. So each rank keeps what it does, in order, with
one number for all of it; the numbers are compared before a step changes anything.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule

from horing.errors import MismatchError as CollectiveMismatch
from paro.torch.agreement import MismatchError, gathered_by_rank, ranks_text
from paro.torch.fsdp_private import gradient_divide_factor, watch
from paro.torch.units import Unit

GATHER, REDUCE = "gathers", "reduces"
KEPT = 4096  # of a step's calls: what a message can name
_BITS = (1 << 62) - 1  # of a number that an int64 has, and its negative
ADVICE = (
    "All ranks of a group call the same units in the same order, and use the same parameters of each: let a "
    "rank use what it does not need with weight zero, as in loss + 0.0 * unused(x).sum()"
)
_DIFFERENT = "ranks have made different calls of units since the last step"
_COMPARING = 1  # the label of the comparison itself
_TELLING = timedelta(seconds=5)  # how long ranks wait for what the others were doing


@dataclass(frozen=True)
class Call:
    """One collective of a unit.

    Attributes:
        kind: GATHER or REDUCE.
        unit: Index of the unit in the optimizer.
        number: Of the pass, from 1; not compared.
        parameters: A bit for each parameter that has a gradient.
    """

    kind: str
    unit: int
    number: int = field(compare=False)  # of the pass, from 1
    parameters: int = 0


class Usage:
    """What this rank has called of the units of one optimizer.

    Args:
        units: The optimizer's, in order.
        names: Names of parameters, by id.
        changed: Called with each call that is noted.
    """

    def __init__(self, units: Sequence[Unit], names: dict[int, str], changed: Callable[[], None]) -> None:
        self._units = [unit.name for unit in units]
        self._modules: dict[int, FSDPModule] = {}  # of the units whose calls are noted
        self._parameters: dict[int, list[str]] = {}
        self._changed = changed
        first = units[0]
        self.mesh, shards = first.mesh, first.shard_mesh
        self._inside, self._inside_ranks = group_of(shards, shards.ndim - 1)
        self._summed_between = shards.ndim == 2
        self.between: dist.ProcessGroup | None = None
        if self._summed_between or first.strategy.splits_shards:
            self.between, _ = group_of(shards if self._summed_between else self.mesh, 0)
        self.marked = False  # whether microbatch() counts the passes
        self.clear()
        for index, unit in enumerate(units):
            if group_of(unit.shard_mesh, unit.shard_mesh.ndim - 1)[0] is self._inside:
                self._modules[index] = unit.module
                watched = watch(unit.module, self._gathers(index), self._reduces(index), self._naming)
                self._parameters[index] = [names.get(id(each), "a frozen one") for each in watched]

    def clear(self) -> None:
        """A step has ended, or was given up."""
        self.calls: list[Call] = []
        self.number = 0  # of the pass that goes on, or the last one
        self._inside_number = self._between_number = 0
        self._label = 0  # of the last call
        self._backward = True  # whether the last call was one of a backward pass
        self._reduced: set[int] = set()  # units, in this pass

    def begins_pass(self) -> None:
        """A forward pass begins."""
        self.number += 1
        self._backward = False
        self._reduced.clear()

    def _gathers(self, unit: int) -> Callable[[bool], None]:
        def note(backward: bool) -> None:
            if self._backward and not backward and not self.marked:
                self.begins_pass()
            self._backward = backward
            self._add(Call(GATHER, unit, self.number))

        return note

    def _reduces(self, unit: int) -> Callable[[int, bool], None]:
        def note(parameters: int, between: bool) -> None:
            if unit in self._reduced and not self.marked:
                self.begins_pass()
            self._backward = True
            self._reduced.add(unit)
            self._add(Call(REDUCE, unit, self.number, parameters))
            if between and self._summed_between:
                self._between_number = hash((self._between_number, unit, parameters)) & _BITS

        return note

    def _add(self, call: Call) -> None:
        self._changed()
        self._label = hash((call.unit, call.kind == REDUCE, call.parameters)) & _BITS
        self._inside_number = hash((self._inside_number, self._label)) & _BITS
        if len(self.calls) < KEPT:
            self.calls.append(call)

    def _factors(self) -> dict[int, float | None]:
        """What each unit's gradients are divided by; groups that use other units share it all the same."""
        found = {index: gradient_divide_factor(module) for index, module in self._modules.items()}
        return {index: factor if factor is None else float(factor) for index, factor in found.items()}

    def agreed(self, what: str, flags: Sequence[int]) -> list[tuple[int, int]]:
        """Compares what the ranks have called, and what they divide gradients by. Collective over the mesh.

        Args:
            what: The call, for errors.
            flags: Numbers to compare with it.

        Returns:
            The least and the greatest of each flag on the ranks that hold the same shards.

        Raises:
            MismatchError: On all ranks, where ranks have made different calls, or have other factors.
        """
        factors = self._factors()
        divided = zlib.crc32(repr(factors).encode())  # as hash(), but the same in all processes
        inside = hash((self._inside_number, divided)) & _BITS
        between = hash((self._between_number, divided)) & _BITS
        device = torch.device(self.mesh.device_type)
        mine = torch.tensor([inside, -inside], device=device)
        own = torch.tensor([between, *flags], device=device)
        with self._naming(_COMPARING):
            if self._inside is not None:
                dist.all_reduce(mine, dist.ReduceOp.MAX, group=self._inside)
            ends = torch.cat([mine.sum().clamp(max=1).view(1), own, -own])
            if self.between is not None:
                dist.all_reduce(ends, dist.ReduceOp.MAX, group=self.between)
        differ, *found = ends.tolist()
        pairs = zip(found[: len(own)], found[len(own) :], strict=True)
        (least, greatest), *of_flags = [(-low, high) for high, low in pairs]
        if differ or least != greatest:
            by_rank = gathered_by_rank((self.calls, factors), self.mesh)
            if text := self._different_factors({rank: factors for rank, (_, factors) in by_rank.items()}):
                raise MismatchError(f"{what}: {text}. Nothing was changed. Give all ranks the same factor for a unit")
            text = self._difference({rank: calls for rank, (calls, _) in by_rank.items()})
            raise MismatchError(f"{what}: {_DIFFERENT}{text}. Nothing was changed. {ADVICE}")
        return of_flags

    @contextlib.contextmanager
    def _naming(self, label: int | None = None) -> Iterator[None]:
        """Around a collective: names the calls where the backend finds that it met another one.

        As horing does, which compares what calls are for: by default the last call noted here. The
        ranks of the group tell each other through its store what they were doing.

        Raises:
            MismatchError: With the first calls that differ.
            DistBackendError: The collective failed for another reason.
        """
        labelled = getattr(self._inside, "labelled", None)
        try:
            with contextlib.nullcontext() if labelled is None else labelled(label or self._label):
                yield
        except dist.DistBackendError as error:
            if self._inside is None or not isinstance(error.__cause__, CollectiveMismatch):
                raise
            text = self._first_difference(self._calls_through_store(self._inside))
            if not text:
                raise
            text = f"{_DIFFERENT}{text}. {ADVICE}"
            from horing.torch.process_group import ProcessGroup  # whose error this is, so it is loaded

            if isinstance(self.between, ProcessGroup):
                self.between.abort(text)  # other groups wait there
            raise MismatchError(f"{text}. The collective: {error}") from error

    def _calls_through_store(self, group: Any) -> dict[int, list[Call]]:
        store, rank = PrefixStore("paro calls of units", group.get_group_store()), dist.get_rank()
        store.set(str(rank), json.dumps([astuple(call) for call in self.calls]))
        reported = {rank: self.calls}
        with contextlib.suppress(RuntimeError):  # who is missing is left out
            for other in dist.get_process_group_ranks(group):
                store.wait([str(other)], _TELLING)
                reported[other] = [Call(*each) for each in json.loads(store.get(str(other)))]
        return reported

    def _different_factors(self, by_rank: dict[int, dict[int, float | None]]) -> str:
        for unit in self._modules:
            ranks_of: dict[str, list[int]] = {}
            for rank, factors in by_rank.items():
                ranks_of.setdefault("none" if factors[unit] is None else str(factors[unit]), []).append(rank)
            if len(ranks_of) > 1:
                reported = "; ".join(f"{factor} on {ranks_text(ranks)}" for factor, ranks in ranks_of.items())
                name = self._units[unit]
                return f"ranks have different factors of set_gradient_divide_factor for unit {name}: {reported}"
        return ""

    def _difference(self, by_rank: dict[int, list[Call]]) -> str:
        """The first call in which ranks of a group differ, else the first sum between groups."""
        for ranks in self.mesh.mesh.reshape(-1, self._inside_ranks).tolist():
            if text := self._first_difference({rank: by_rank[rank] for rank in ranks}):
                return text
        sums = {rank: [call for call in calls if call.kind == REDUCE] for rank, calls in by_rank.items()}
        return self._first_difference(sums) or f", beyond the first {KEPT}"

    def _first_difference(self, by_rank: dict[int, list[Call]]) -> str:
        for index in range(max(len(calls) for calls in by_rank.values())):
            made: dict[Call | None, list[int]] = {}
            for rank, calls in by_rank.items():
                made.setdefault(calls[index] if index < len(calls) else None, []).append(rank)
            if len(made) > 1:
                return ": " + "; ".join(f"{self._text(call)} on {ranks_text(ranks)}" for call, ranks in made.items())
        return ""

    def _text(self, call: Call | None) -> str:
        if call is None:
            return "no further call"
        where = f"unit {self._units[call.unit]} in pass {call.number}"
        if call.kind == GATHER:
            return f"a gather of {where}"
        names = [each for bit, each in enumerate(self._parameters[call.unit]) if call.parameters >> bit & 1]
        return f"gradients of {', '.join(names)} of {where}"


def group_of(mesh: DeviceMesh, dimension: int) -> tuple[dist.ProcessGroup | None, int]:
    """The process group of a dimension of a mesh.

    Args:
        mesh: The mesh.
        dimension: Its index.

    Returns:
        The group (None: of this rank alone), and its number of ranks.
    """
    ranks = mesh.size(dimension)
    return (mesh.get_group(dimension) if ranks > 1 else None), ranks
