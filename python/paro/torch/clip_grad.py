"""The norm of all gradients, each element counted once whatever its scope."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor

from paro.torch.optimizer import Optimizer, optimizer_gradient, optimizer_of


def _groups_of(optimizer: Optimizer, parameter: nn.Parameter) -> tuple[dist.ProcessGroup, ...]:
    """Groups whose ranks hold different elements of the parameter's gradient at the optimizer."""
    assert isinstance(parameter, DTensor)
    mesh = parameter.device_mesh
    groups = [
        mesh.get_group(dimension)
        for dimension, placement in enumerate(parameter.placements)
        if not placement.is_replicate()  # under tensor parallelism shards are of several classes
    ]
    split = optimizer.split_group_of(parameter)
    return tuple(groups if split is None else [*groups, split])


@torch.no_grad()
def clip_grad_norm_(model: nn.Module, max_norm: float, norm_type: float | str = 2.0) -> torch.Tensor:
    """As torch.nn.utils.clip_grad_norm_, over the whole gradient under any strategy. Collective.

    After the last micro-batch's backward pass, before Optimizer.step. Elements that tensor
    parallelism shards count too; those that it replicates count once.

    Args:
        model: A model under fully_shard that has its Optimizer.
        max_norm: Gradients are scaled down to this norm.
        norm_type: Above 0, as 2.0, or inf for the largest element.

    Returns:
        The norm before clipping, a scalar in fp32, the same on all ranks.

    Raises:
        ValueError: norm_type is not above 0, or the model is not under fully_shard.
        RuntimeError: There is no Optimizer yet, or no micro-batch was the last.
        MismatchError: Ranks have made different calls since the last step.
    """
    norm_type = float(norm_type)  # torch takes "inf" too
    if not norm_type > 0:
        raise ValueError(f"clip_grad_norm_: norm_type is {norm_type}; give a number above 0, or inf")
    optimizer = optimizer_of(model, "clip_grad_norm_")
    optimizer.finish_gradients("clip_grad_norm_")
    largest = norm_type == float("inf")
    # Ranks add up the same groups in the same order, also those in which they have nothing.
    sums: dict[tuple[dist.ProcessGroup, ...], torch.Tensor] = {}
    gradients = []
    for parameter, master in optimizer.pairs():
        key = _groups_of(optimizer, parameter)
        if key not in sums:
            sums[key] = torch.zeros((), device=parameter.device)
        gradient = optimizer_gradient(master)
        if gradient is None or gradient.numel() == 0:
            continue
        gradients.append(gradient)
        norm = torch.linalg.vector_norm(gradient, norm_type, dtype=torch.float32)
        sums[key] = torch.maximum(sums[key], norm) if largest else sums[key] + norm**norm_type
    for groups, total in sums.items():
        for group in groups:
            dist.all_reduce(total, dist.ReduceOp.MAX if largest else dist.ReduceOp.SUM, group=group)
    totals = torch.stack(list(sums.values()))
    norm = totals.max() if largest else totals.sum() ** (1.0 / norm_type)
    factor = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    if gradients:
        torch._foreach_mul_(gradients, factor)
    return norm
