"""What holds of a model under a strategy: who has what, how much memory it takes, what is sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from paro._library import plan
from paro.torch.fsdp_private import held_tensors, stays_gathered
from paro.torch.masters import UnitMasters
from paro.torch.optimizer import Optimizer, optimizer_of
from paro.torch.partition import local_of
from paro.torch.strategies import Scope
from paro.torch.units import Unit, managed_parameters


@dataclass(frozen=True)
class Memory:
    """Bytes that this rank holds now, by state; of storages, so padding counts.

    Attributes:
        parameters: Shards, and what is gathered now.
        gradients: Shards, sums of micro-batches and what is under way.
        optimizer: Masters, and the optimizer's own state.
    """

    parameters: int
    gradients: int
    optimizer: int


@dataclass(frozen=True)
class Traffic:
    """Bytes that a rank sends in a step.

    Attributes:
        intra: Inside its group.
        inter: Between groups.
    """

    intra: float
    inter: float

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.intra + other.intra, self.inter + other.inter)

    def __mul__(self, times: float) -> Traffic:
        return Traffic(self.intra * times, self.inter * times)


def _bytes(tensors: Iterable[torch.Tensor | None]) -> int:
    """Of their storages, each counted once."""
    storages = {}
    for tensor in tensors:
        if tensor is not None:
            plain = local_of(tensor) if isinstance(tensor, DTensor) else tensor
            storage = plain.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def memory(model: nn.Module) -> Memory:
    """What the states take on this rank at this moment.

    Args:
        model: A model under fully_shard that has its Optimizer.

    Returns:
        Bytes by state.

    Raises:
        ValueError: No module was given to fully_shard, or parts have optimizers of their own.
        RuntimeError: There is no Optimizer yet.
    """
    optimizer = optimizer_of(model, "memory")
    parameters: list[torch.Tensor] = list(model.parameters())  # gathered, where a pass has left them so
    gradients: list[torch.Tensor | None] = []
    for unit in optimizer.units:
        own, summed = held_tensors(unit.module)
        parameters += own
        gradients += summed
    for made in optimizer.unit_masters:
        gradients += [made.reduction.sums, made.reduction.row_sum]
        gradients += [each for _, row, source in made.reduction.in_flight for each in (row, source)]
    states: list[Any] = [each for of in optimizer.inner.state.values() for each in of.values()]
    held = [each for each in states if isinstance(each, torch.Tensor) and each.ndim > 0]
    return Memory(
        _bytes(parameters),
        _bytes(gradients),
        _bytes(held) + _bytes(made.values for made in optimizer.unit_masters),
    )


def _padded(parameter: nn.Parameter, unit: Unit) -> int:
    """Elements of a parameter whose rows FSDP2 pads to a multiple of the shards.

    Other dimensions it splits evenly only.
    """
    assert isinstance(parameter, DTensor)
    shards, whole = unit.shard_count, parameter.numel()
    for dimension in range(unit.shard_mesh.ndim, parameter.device_mesh.ndim):  # tensor parallelism
        if not parameter.placements[dimension].is_replicate():
            whole //= parameter.device_mesh.size(dimension)
    rows = parameter.shape[0]
    if getattr(parameter.placements[unit.shard_mesh.ndim - 1], "dim", 0) != 0:
        return whole
    return -(-rows // shards) * shards * (whole // rows) if rows else 0


def _shape_of(unit: Unit) -> tuple[int, int]:
    """Groups, and ranks of each."""
    return (1, unit.mesh.size()) if unit.mesh.ndim == 1 else (unit.mesh.size(0), unit.mesh.size(1))


def _unit_request(
    unit: Unit, made: UnitMasters | None, parameters: list[nn.Parameter], is_root: bool
) -> dict[str, Any]:
    """What the collectives of a unit carry, as a unit of paro_plan's request (docs/reference/json.md)."""
    policy = unit.mp_policy
    kind = policy.param_dtype or parameters[0].dtype
    padded = sum(_padded(p, unit) for p in parameters)
    trained = sum(_padded(p, unit) for p in parameters if p.requires_grad)
    request = {
        "parameters": padded,
        "trained": trained,
        "gathered_bytes": padded * kind.itemsize,
        "reduced_bytes": trained * (policy.reduce_dtype or kind).itemsize,
        "updated_bytes": padded * kind.itemsize,  # FSDP2 gathers frozen ones again too
        # As a root does, which is then not gathered again.
        "stays_gathered": stays_gathered(unit.module, is_root),
    }
    if made is not None and made.group is not None:
        row, flags = made.layout.row_elements, len(made.layout.pieces)
        request["reduced_between_bytes"] = unit.mesh.size() * (row + flags) * made.reduction.wire.itemsize
        request["updated_between_bytes"] = unit.mesh.size() * row * made.gathered_as.itemsize
    return request


def traffic_of_a_step(model: nn.Module, passes: int = 1) -> Traffic:
    """What each rank sends in a step under the strategy, if collectives send the least there is.

    Gathers for evaluation come on top. Not collective: it is computed, not measured.

    Args:
        model: A model under fully_shard that has its Optimizer.
        passes: Micro-batches in the step.

    Returns:
        Bytes inside the group and between groups.

    Raises:
        ValueError: No module was given to fully_shard, or parts have optimizers of their own.
        RuntimeError: There is no Optimizer yet.
    """
    optimizer = optimizer_of(model, "traffic_of_a_step")
    made = {id(each.unit): each for each in optimizer.unit_masters}
    managed = managed_parameters(model, optimizer.units)
    units = [
        _unit_request(unit, made.get(id(unit)), [parameter for _, parameter in named], index == 0)
        for index, (unit, named) in enumerate(zip(optimizer.units, managed, strict=True))
        if named
    ]
    first = optimizer.units[0]
    groups, group_size = _shape_of(first)
    any_rate = "1GB"  # bytes do not depend on it, and times are not looked at
    answer = plan({
        "units": units, "nodes": groups, "ranks_per_node": group_size, "nics": group_size, "accumulation": passes,
        "intra": any_rate, "inter": any_rate, "no_overlap": True,
    })  # fmt: skip
    sent = next(each["sent_bytes"] for each in answer["strategies"] if each["name"] == str(first.strategy))
    return Traffic(sent["intra"], sent["inter"])


def explain(model: nn.Module, passes: int = 1) -> str:
    """A table for people: the strategy, who holds what, memory now, and what a step sends.

    Args:
        model: A model under fully_shard that has its Optimizer.
        passes: Micro-batches in a step.

    Returns:
        Several lines, for this rank.

    Raises:
        ValueError: No module was given to fully_shard, or parts have optimizers of their own.
        RuntimeError: There is no Optimizer yet.
    """
    optimizer = optimizer_of(model, "explain")
    unit = optimizer.units[0]
    strategy = unit.strategy
    groups, size = _shape_of(unit)
    held = memory(model)
    over = {
        Scope.N: "every rank has all of it",
        Scope.I: f"split over the {size} ranks of a group",
        Scope.G: f"split over all {groups * size} ranks",
    }
    rows = [
        ("parameters", strategy.parameters, held.parameters),
        ("gradients", strategy.gradients, held.gradients),
        ("optimizer state", strategy.optimizer, held.optimizer),
    ]
    sent = traffic_of_a_step(model, passes)
    fsdp = over[strategy.shards] if strategy.shards is not Scope.N else "not split"
    return "\n".join(
        [
            f"strategy {strategy}: {groups} groups of {size} ranks, {len(optimizer.units)} units",
            *(
                f"  {name:<16} {scope.value}  {over[scope]:<36} {size_now / 1e6:10.2f} MB now"
                for name, scope, size_now in rows
            ),
            f"  FSDP2's shards      {fsdp}",
            f"  masters             {_masters_text(optimizer)}",
            f"  .grad of parameters {_grad_text(optimizer)}",
            f"  a rank sends in a step of {passes} micro-batches: {sent.intra / 1e6:.2f} MB inside its "
            f"group, {sent.inter / 1e6:.2f} MB between groups",
        ]
    )


def _masters_text(optimizer: Optimizer) -> str:
    if optimizer.unit_masters:
        return "fp32, apart from the parameters, at the optimizer's scope"
    return "the fp32 shards of the parameters themselves"


def _grad_text(optimizer: Optimizer) -> str:
    if optimizer.unit_masters:
        return "None at all times: torch's clip_grad_norm_ clips nothing; use paro.torch.clip_grad_norm_"
    return "this rank's shard of the gradient, as with FSDP2"
