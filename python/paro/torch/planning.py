"""strategy="auto": the planner's pick for a model, with links that the process group measured."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from paro.torch.reduction import all_gather
from paro.torch.strategies import STRATEGIES

_MEASURED_BYTES = 4 << 20  # that a rank has after the gather
_ROUNDS = 5


def _received_per_second(group: dist.ProcessGroup, device: str) -> float | None:
    """Of a rank, while all groups of the dimension are at it. None for a group of one."""
    ranks = dist.get_world_size(group)
    if ranks == 1:
        return None
    part = torch.zeros(_MEASURED_BYTES // ranks, dtype=torch.uint8, device=device)
    whole = torch.empty(part.numel() * ranks, dtype=torch.uint8, device=device)
    seconds = []
    for _ in range(_ROUNDS + 1):  # the first one makes connections
        dist.barrier()
        started = time.monotonic()
        all_gather(whole, part, group).wait()
        if device != "cpu":
            torch.accelerator.synchronize()
        seconds.append(time.monotonic() - started)
    return (ranks - 1) * part.numel() / sorted(seconds[1:])[_ROUNDS // 2]


def measure_links(mesh: DeviceMesh) -> tuple[float, float]:
    """Bytes per second of a rank's links inside its group and between groups: the slowest rank's.

    Collective over all ranks. A dimension of one rank counts as very fast.
    """
    found = []
    for dimension in (1, 0):
        rate = _received_per_second(mesh.get_group(dimension), mesh.device_type)
        slowest = torch.tensor([float("inf") if rate is None else rate], device=mesh.device_type)
        dist.all_reduce(slowest, dist.ReduceOp.MIN)
        found.append(min(slowest.item(), 1e13))
    return found[0], found[1]


def _planner() -> str:
    import horing

    return str(Path(horing.__file__).parent / "bin" / "paro")


def choose_strategy(
    model: nn.Module,
    mesh: DeviceMesh,
    *,
    memory_bytes: float | None = None,
    accumulation: int = 1,
    compute_seconds: float = 0.0,
    layers: int = 1,
) -> tuple[str, str]:
    """The planner's pick for the model, and why. Collective; before fully_shard.

    `memory_bytes`: of a rank, for parameters, gradients and optimizer state [whatever it takes];
    `compute_seconds`: of a step, without communication; `layers`: units of about the same size.
    The planner is the program `paro` of the package horing. GIG, which FSDP2 cannot have, is left out.
    """
    intra, inter = measure_links(mesh)
    answer: list[Any] = [None]
    if dist.get_rank() == 0:
        answer[0] = _asked(
            model, mesh, intra, inter, memory_bytes, accumulation, compute_seconds, layers
        )
    dist.broadcast_object_list(answer, 0)
    if isinstance(answer[0], str):
        raise RuntimeError(answer[0])
    name, why = answer[0]
    return name, why


def _asked(
    model: nn.Module,
    mesh: DeviceMesh,
    intra: float,
    inter: float,
    memory_bytes: float | None,
    accumulation: int,
    compute_seconds: float,
    layers: int,
) -> tuple[str, str] | str:
    """(strategy, why), or an error for all ranks."""
    parameters = list(model.parameters())
    total = sum(p.numel() for p in parameters)
    trained = sum(p.numel() for p in parameters if p.requires_grad)
    groups, size = mesh.shape
    arguments = [
        "plan", "--json", "--model",
        f"params={total},trainable={trained},layers={layers},sequence=1",
        "--nodes", str(groups), "--ranks-per-node", str(size), "--nics", str(size),
        "--intra", f"{intra:.0f}B", "--inter", f"{inter:.0f}B",
        "--bytes", "4,4,8", "--accumulation", str(accumulation), "--compute-time", f"{compute_seconds}s",
    ]  # fmt: skip
    if memory_bytes is not None:
        arguments += ["--memory", f"{memory_bytes:.0f}B"]
    try:
        done = subprocess.run(
            [_planner(), *arguments], text=True, capture_output=True, timeout=60, check=False
        )
        if done.returncode != 0:
            return f"choose_strategy: paro plan ended with status {done.returncode}: {done.stderr.strip()}"
        plan = json.loads(done.stdout)
    except (ImportError, OSError, subprocess.TimeoutExpired, ValueError) as error:
        # Told to all: the others wait for this rank's answer.
        return f"choose_strategy: rank 0 could not run the planner ({error}): pip install horing"
    fitting = [name for name in plan["ranking"] if name in STRATEGIES]
    if not fitting:
        return (
            "choose_strategy: no strategy fits into the memory; GGG takes the least: take more ranks or "
            "a smaller model"
        )
    links = f"{intra / 1e6:.0f} MB/s inside groups and {inter / 1e6:.0f} MB/s between them, measured"
    why = plan["why"] if fitting[0] == plan["recommended"] else "the fastest that FSDP2 can have"
    return fitting[0], f"{fitting[0]} ({links}): {why}"
