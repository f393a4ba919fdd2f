"""What paro.torch takes from FSDP2 that FSDP2 does not promise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.distributed.fsdp import FSDPModule


def parameter_groups(module: FSDPModule) -> list[Any]:
    """Of this call of fully_shard. They hold `fsdp_params`, and hybrid sharding's partial sums."""
    return list(module._get_fsdp_state()._fsdp_param_groups)


def parameters_of(module: FSDPModule) -> Iterator[Any]:
    """Each has `sharded_param`, and perhaps `_unsharded_param` and `unsharded_accumulated_grad`."""
    return (each for group in parameter_groups(module) for each in group.fsdp_params)


def gradient_divide_factor(module: FSDPModule) -> float | None:
    """What set_gradient_divide_factor was given."""
    return next((group.gradient_divide_factor for group in parameter_groups(module)), None)


def sums_alone(module: FSDPModule) -> bool:
    """What set_force_sum_reduction_for_comms was given."""
    return any(group.force_sum_reduction_for_comms for group in parameter_groups(module))


def reduces(module: FSDPModule) -> bool:
    """Whether neither set_requires_gradient_sync nor set_requires_all_reduce holds gradients back."""
    return all(group.reduce_grads and group.all_reduce_grads for group in parameter_groups(module))


def stays_gathered(module: FSDPModule, is_root: bool) -> bool:
    """From forward to backward. FSDP2 decides of a root when it first runs."""
    if is_root and module._get_fsdp_state()._auto_reshard_after_forward:
        return True
    return all(group.post_forward_mesh_info is None for group in parameter_groups(module))


def drop_whole_gradients(module: FSDPModule) -> None:
    """Those that every rank sums until the last micro-batch. reset_iter_state leaves them."""
    for each in parameters_of(module):
        each.unsharded_accumulated_grad = None
        gathered = getattr(each, "_unsharded_param", None)
        if gathered is not None:
            gathered.grad = None
