"""strategy="auto": the planner's pick for a model, with links that the process group measured."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from paro._library import plan
from paro.torch.agreement import checked_together
from paro.torch.meshes import check_dimensions, world_of
from paro.torch.reduction import all_gather
from paro.torch.strategies import STRATEGIES

_VERY_FAST = 1e13  # bytes per second
_MEASURED_BYTES = 4 << 20  # that a rank has after a gather
_ROUNDS = 5
_TENSORS = 8  # of a unit, as of a layer of a model


@dataclass(frozen=True)
class Links:
    """Inside groups ("intra"), between them ("inter") and over all ranks ("world"): of the slowest rank.

    A dimension of one rank counts as very fast.

    Attributes:
        intra_bytes_per_s: What a rank receives while all groups of the dimension are at it.
        inter_bytes_per_s: The same between groups.
        intra_call_s: What the gather of a unit takes beside its bytes, with FSDP2's own work.
        inter_call_s: The same between groups.
        world_call_s: The same over all ranks.
    """

    intra_bytes_per_s: float  # that a rank receives while all groups of the dimension are at it
    inter_bytes_per_s: float
    intra_call_s: float  # what the gather of a unit takes beside its bytes, with FSDP2's own work
    inter_call_s: float
    world_call_s: float


def _median_seconds(call: Callable[[], object], device: str) -> float:
    seconds = []
    for _ in range(_ROUNDS + 1):  # the first one makes connections
        dist.barrier()
        started = time.monotonic()
        call()
        if device != "cpu":
            torch.accelerator.synchronize()
        seconds.append(time.monotonic() - started)
    return sorted(seconds[1:])[_ROUNDS // 2]


def _slowest(seconds: float, device: str) -> float:
    worst = torch.tensor([seconds], device=device)
    dist.all_reduce(worst, dist.ReduceOp.MAX)
    return float(worst.item())


def _call_seconds(mesh: DeviceMesh) -> float:
    """Of FSDP2's gather of a unit that has next to no bytes."""
    if mesh.size() == 1:
        return 0.0
    tensors = (torch.zeros(mesh.size(), device=mesh.device_type) for _ in range(_TENSORS))
    unit: Any = fully_shard(nn.ParameterList(tensors), mesh=mesh)

    def gather() -> None:
        unit.unshard()
        unit.reshard()

    return _slowest(_median_seconds(gather, mesh.device_type), mesh.device_type)


def _bytes_per_second(mesh: DeviceMesh) -> float:
    """That a rank receives in a gather."""
    ranks = mesh.size()
    if ranks == 1:
        return _VERY_FAST

    def gather_of(part_bytes: int) -> float:
        part = torch.zeros(part_bytes, dtype=torch.uint8, device=mesh.device_type)
        whole = torch.empty(part_bytes * ranks, dtype=torch.uint8, device=mesh.device_type)
        seconds = _median_seconds(
            lambda: all_gather(whole, part, mesh.get_group()).wait(), mesh.device_type
        )
        return _slowest(seconds, mesh.device_type)

    few, many = gather_of(1), gather_of(_MEASURED_BYTES // ranks)
    # Where a call takes all of the time, its bytes cannot be told from it.
    return min(_MEASURED_BYTES * (ranks - 1) / ranks / max(many - few, many / 10), _VERY_FAST)


def measure_links(mesh: DeviceMesh) -> Links:
    """Measures rates and costs of calls on a mesh. Collective over all ranks; takes some seconds.

    Args:
        mesh: Of init_mesh; the same on all ranks.

    Returns:
        The links, the same on all ranks.

    Raises:
        ValueError: The mesh has not two dimensions with names.
        MismatchError: Ranks have different meshes, or another rank has an error.
    """
    with checked_together("measure_links") as compared:
        check_dimensions(mesh, "measure_links")
        compared["mesh"] = mesh.mesh.shape
    assert mesh.mesh_dim_names is not None
    inter, intra = (mesh[name] for name in mesh.mesh_dim_names)
    rates = [_bytes_per_second(each) for each in (intra, inter)]
    return Links(*rates, *(_call_seconds(each) for each in (intra, inter, world_of(mesh))))


def request_of(links: Links, device: str) -> dict[str, Any]:
    """Links as a part of what the planner is asked.

    On CPUs FSDP2 gathers where it uses, and calls take the processors that compute.

    Args:
        links: What was measured.
        device: The mesh's device type.

    Returns:
        Keys of paro_plan (docs/reference/json.md) with their values.
    """
    return {
        "intra": f"{links.intra_bytes_per_s:.0f}B",
        "inter": f"{links.inter_bytes_per_s:.0f}B",
        "intra_call": f"{links.intra_call_s:.9f}s",
        "inter_call": f"{links.inter_call_s:.9f}s",
        "world_call": f"{links.world_call_s:.9f}s",
        **({"no_overlap": True, "prefetch": 0} if device == "cpu" else {}),
    }


def choose_strategy(
    model: nn.Module,
    mesh: DeviceMesh,
    *,
    memory_bytes: float | None = None,
    accumulation: int = 1,
    compute_seconds: float = 0.0,
    update_seconds: float = 0.0,
    layers: int = 1,
    bytes_per_parameter: tuple[float, float, float] | None = None,
) -> tuple[str, str]:
    """The planner's pick for a model, and why. Collective; before fully_shard.

    Rank 0 asks libparo's planner (paro_plan). GIG, which FSDP2 cannot have, is left out. All arguments but
    `update_seconds` must be the same on all ranks.

    Args:
        model: The whole model, not sharded.
        mesh: Of init_mesh; the links are measured on it.
        memory_bytes: Of a rank, for parameters, gradients and optimizer state; None: whatever it
            takes.
        accumulation: Micro-batches in a step.
        compute_seconds: Of a step's passes, without communication.
        update_seconds: Of an optimizer over all parameters; rank 0's counts.
        layers: Units of about the same size.
        bytes_per_parameter: Of parameters, gradients and optimizer state; None: as the parameters'
            types have it, with Adam: 4, 4, 8 in fp32, 2, 2, 12 in bf16 with fp32 masters.

    Returns:
        The strategy's name and one line that says why, the same on all ranks.

    Raises:
        ValueError: An argument is out of range, the mesh does not fit, or all parameters are
            frozen.
        RuntimeError: libparo is missing or refuses the model, or no strategy fits into the memory.
        MismatchError: Ranks have different arguments, or another rank has an error.
    """
    with checked_together("choose_strategy") as compared:
        check_dimensions(mesh, "choose_strategy")
        compared["mesh"] = mesh.mesh.shape
        compared["memory_bytes"] = _number("memory_bytes", memory_bytes, 1) if memory_bytes is not None else None
        compared["accumulation"] = _number("accumulation", accumulation, 1)
        compared["layers"] = _number("layers", layers, 1)
        compared["model"] = units = _units_of(model, layers, bytes_per_parameter is None)
        compared["bytes_per_parameter"] = bytes_per_parameter
        request: dict[str, Any] = {
            "units": units,
            "nodes": mesh.size(0),
            "ranks_per_node": mesh.size(1),
            "nics": mesh.size(1),
            "accumulation": accumulation,
            "compute_time": f"{_number('compute_seconds', compute_seconds, 0):.9f}s",
            "update_time": f"{_number('update_seconds', update_seconds, 0):.9f}s",
        }
        if bytes_per_parameter is not None:
            numbers = [_number("bytes_per_parameter", each, 0) for each in bytes_per_parameter]
            request["bytes"] = ",".join(f"{each:.9g}" for each in numbers)
        if memory_bytes is not None:
            request["memory"] = f"{memory_bytes:.0f}B"
    links = measure_links(mesh)
    answer: list[Any] = [None]
    if dist.get_rank() == 0:
        answer[0] = _requested(links, {**request_of(links, mesh.device_type), **request})
    dist.broadcast_object_list(answer, 0)
    if isinstance(answer[0], str):
        raise RuntimeError(answer[0])
    name, why = answer[0]
    return name, why


def _number(name: str, value: Any, least: float) -> float:
    if not isinstance(value, (int, float)) or not least <= value < math.inf:
        raise ValueError(f"choose_strategy: {name} is {value!r}; give a number from {least}")
    return value


def _units_of(model: nn.Module, layers: int, types_count: bool = True) -> list[dict[str, Any]]:
    """Units of paro_plan's request: so many of about the same size in all, of one type of parameters each.

    Args:
        model: The whole model, not sharded.
        layers: How many.
        types_count: Whether the bytes of a parameter follow from its type.

    Returns:
        A unit of each type, with its count.

    Raises:
        ValueError: All parameters are frozen.
    """
    parameters = [p for p in model.parameters() if p.numel() > 0]
    if not any(p.requires_grad for p in parameters):
        raise ValueError("choose_strategy: the model has no parameter that is trained; is all of it frozen?")
    total = sum(p.numel() for p in parameters)
    units = []
    for element_bytes in sorted({p.element_size() for p in parameters}):
        typed = [p for p in parameters if p.element_size() == element_bytes]
        count = sum(p.numel() for p in typed)
        trained = sum(p.numel() for p in typed if p.requires_grad)
        share = max(1, round(layers * count / total))
        unit = {"parameters": count / share, "trained": trained / share, "count": share}
        units.append({**unit, "element_bytes": element_bytes} if types_count else unit)
    return units


def _requested(links: Links, request: dict[str, Any]) -> tuple[str, str] | str:
    """(strategy, why), or an error for all ranks."""
    try:
        answer = plan(request)
    except (ImportError, ValueError) as error:
        # Told to all: the others wait for this rank's answer.
        return f"choose_strategy: rank 0 could not ask the planner: {error}"
    fitting = [name for name in answer["ranking"] if name in STRATEGIES]
    if not fitting:
        return (
            "choose_strategy: no strategy fits into the memory; GGG takes the least: take more ranks or "
            "a smaller model"
        )
    measured = (
        f"{links.intra_bytes_per_s / 1e6:.0f} MB/s inside groups and {links.inter_bytes_per_s / 1e6:.0f} "
        "MB/s between them, measured"
    )
    why = answer["why"] if fitting[0] == answer["recommended"] else "the fastest that FSDP2 can have"
    return fitting[0], f"{fitting[0]} ({measured}): {why}"
