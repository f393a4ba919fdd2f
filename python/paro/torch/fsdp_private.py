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


def drop_whole_gradients(module: FSDPModule) -> None:
    """Those that every rank sums until the last micro-batch. reset_iter_state leaves them."""
    for each in parameters_of(module):
        each.unsharded_accumulated_grad = None
        gathered = getattr(each, "_unsharded_param", None)
        if gathered is not None:
            gathered.grad = None
