"""What paro.torch takes from FSDP2 that FSDP2 does not promise."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.distributed.fsdp import FSDPModule


def parameter_groups(module: FSDPModule) -> list[Any]:
    """FSDP2's own groups of parameters.

    Args:
        module: Of one call of fully_shard.

    Returns:
        Each holds `fsdp_params`, and hybrid sharding's partial sums.
    """
    return list(module._get_fsdp_state()._fsdp_param_groups)


def parameters_of(module: FSDPModule) -> Iterator[Any]:
    """FSDP2's own parameters.

    Args:
        module: Of one call of fully_shard.

    Returns:
        Each has `sharded_param`, and perhaps `_unsharded_param` and `unsharded_accumulated_grad`.
    """
    return (each for group in parameter_groups(module) for each in group.fsdp_params)


def gradient_divide_factor(module: FSDPModule) -> float | None:
    """What set_gradient_divide_factor was given.

    Args:
        module: Of one call of fully_shard.

    Returns:
        The divisor; None: FSDP2 divides by its ranks.
    """
    return next((group.gradient_divide_factor for group in parameter_groups(module)), None)


def sums_alone(module: FSDPModule) -> bool:
    """What set_force_sum_reduction_for_comms was given.

    Args:
        module: Of one call of fully_shard.

    Returns:
        Whether the network sums, and does not average.
    """
    return any(group.force_sum_reduction_for_comms for group in parameter_groups(module))


def reduces(module: FSDPModule) -> bool:
    """Whether neither set_requires_gradient_sync nor set_requires_all_reduce holds gradients back.

    Args:
        module: Of one call of fully_shard.

    Returns:
        Whether gradients are reduced.
    """
    return all(group.reduce_grads and group.all_reduce_grads for group in parameter_groups(module))


def stays_gathered(module: FSDPModule, is_root: bool) -> bool:
    """Whether parameters stay gathered from forward to backward.

    Args:
        module: Of one call of fully_shard.
        is_root: Whether it is the model's outermost. FSDP2 decides of a root when it first runs.

    Returns:
        Whether they do.
    """
    if is_root and module._get_fsdp_state()._auto_reshard_after_forward:
        return True
    return all(group.post_forward_mesh_info is None for group in parameter_groups(module))


def drop_whole_gradients(module: FSDPModule) -> None:
    """Drops gradients that every rank sums until the last micro-batch. reset_iter_state leaves them.

    Args:
        module: Of one call of fully_shard.
    """
    for each in parameters_of(module):
        each.unsharded_accumulated_grad = None
        gathered = getattr(each, "_unsharded_param", None)
        if gathered is not None:
            gathered.grad = None


def watch(
    module: FSDPModule,
    gathers: Callable[[bool], None],
    reduces: Callable[[int, bool], None],
    around: Callable[[], contextlib.AbstractContextManager[None]],
) -> list[Any]:
    """Has each collective of a unit noted before it is made.

    Args:
        module: Of one call of fully_shard.
        gathers: Called before a gather: whether it is one of a backward pass.
        reduces: Called before a reduction: a bit for each parameter, and whether it goes between
            the groups of hybrid sharding too.
        around: The collectives are made inside its context.

    Returns:
        The parameters of the bits, the first bit's first.
    """
    parameters: list[Any] = []
    for group in parameter_groups(module):
        noted = functools.partial(_note_gather, group, gathers)
        group.unshard = _watched(group.unshard, noted, around)
        group.wait_for_unshard = _watched(group.wait_for_unshard, lambda: None, around)
        noted = functools.partial(_note_reduction, group, len(parameters), reduces)
        group.post_backward = _watched(group.post_backward, noted, around)
        parameters += [each.sharded_param for each in group.fsdp_params]
    return parameters


def _watched(
    call: Callable[..., None],
    first: Callable[[], None],
    around: Callable[[], contextlib.AbstractContextManager[None]],
) -> Callable[..., None]:
    @functools.wraps(call)
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def both(*arguments: Any, **named: Any) -> None:
        first()
        with around():
            call(*arguments, **named)

    return both


def _note_gather(group: Any, gathers: Callable[[bool], None]) -> None:
    if group._all_gather_result is None and not group.is_unsharded:
        gathers("BACKWARD" in group._training_state.name)


def _note_reduction(group: Any, offset: int, reduces: Callable[[int, bool], None]) -> None:
    if not group.reduce_grads:
        return
    unused_too = getattr(group, "reduce_scatter_unused_params", False)  # torch 2.13
    bits = 0
    for index, each in enumerate(group.fsdp_params):
        if not hasattr(each, "_unsharded_param"):
            continue
        gathered = each._unsharded_param
        has_gradient = each.unsharded_accumulated_grad is not None or gathered.grad is not None
        if has_gradient or (unused_too and gathered.requires_grad):
            bits |= 1 << (offset + index)
    if bits:
        reduces(bits, bool(group.all_reduce_grads))
