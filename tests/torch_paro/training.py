"""What a rank of the PaRO suite does: trains one strategy, and compares it with one process."""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.distributed.tensor import DTensor

import paro.torch
from models import Model, freeze, loss_of, micro_batches, trained_alone

STEPS = 4
FULL = "--full" in sys.argv  # all combinations; for unittest it is no argument
if FULL:
    sys.argv.remove("--full")
LR = 1e-2
CLIP = 0.5  # below the norms of the first steps


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=LR)


def sharded(model: Model, strategy: str, mesh: DeviceMesh, **options: Any) -> nn.Module:
    for block in model.blocks:
        paro.torch.fully_shard(block, mesh=mesh, strategy=strategy, **options)
    paro.torch.fully_shard(model, mesh=mesh, strategy=strategy, **options)
    return model


def step_of(
    model: nn.Module, optimizer: paro.torch.Optimizer, step: int, parts: int, clip: float | None = None
) -> tuple[float, float]:
    """The mean loss of all ranks, and the norm."""
    total, norm = torch.zeros(()), torch.zeros(())
    batches = micro_batches(step, dist.get_rank(), dist.get_world_size(), parts)
    for index, (x, y) in enumerate(batches):
        with paro.torch.microbatch(model, last=index + 1 == parts):
            loss = loss_of(model, x, y, parts)
            loss.backward()
        total += loss.detach()
    if clip is not None:
        norm = paro.torch.clip_grad_norm_(model, clip)
    optimizer.step()
    optimizer.zero_grad()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size(), norm.item()


def relative(value: torch.Tensor, reference: torch.Tensor) -> float:
    return ((value.float() - reference).norm() / reference.norm()).item()


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Of a parameter, sharded or gathered. Collective."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def compared(
    strategy: str, mesh: DeviceMesh, parts: int, half: bool, clip: bool, frozen: bool
) -> float:
    """The largest relative difference from one process: of losses, norms and parameters."""
    model = Model()
    if frozen:
        freeze(model)
    bound = CLIP if clip else None
    losses, norms, parameters = trained_alone(model, STEPS, adamw, bound)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    options = {"mp_policy": policy} if half else {}
    sharded(model, strategy, mesh, **options)
    optimizer = paro.torch.Optimizer(torch.optim.AdamW, model, lr=LR)
    worst = 0.0
    for step in range(STEPS):
        loss, norm = step_of(model, optimizer, step, parts, bound)
        worst = max(worst, abs(loss - losses[step]) / losses[step])
        if clip:
            worst = max(worst, abs(norm - norms[step]) / norms[step])
    for name, parameter in model.named_parameters():
        worst = max(worst, relative(whole(parameter), parameters[name]))
    return worst
