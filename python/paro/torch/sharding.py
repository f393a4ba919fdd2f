"""fully_shard: FSDP2's, told what a strategy asks of it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy
from torch.distributed.fsdp import fully_shard as fsdp_fully_shard
from torch.distributed.tensor import DTensor

from paro.torch.agreement import checked_together
from paro.torch.fsdp_methods import (
    FSDPOptions,
    check_options,
    check_reshard_after_forward,
    options_for_fsdp2,
    watch_methods,
)
from paro.torch.fsdp_private import drop_whole_gradients
from paro.torch.meshes import ADVICE, init_mesh, shard_mesh
from paro.torch.strategies import Strategy, strategy_of
from paro.torch.units import Unit, mark, unit_of

if TYPE_CHECKING:
    from typing_extensions import Unpack  # typing's begins with Python 3.11


def _reducing_in_fp32(policy: MixedPrecisionPolicy, modules: list[nn.Module]) -> MixedPrecisionPolicy:
    """The policy, with fp32 as the type of reductions where 16 bits would be.

    FSDP2 sums micro-batches in the type in which it reduces, which is that of the parameters where
    the policy does not say it. 16 bits lose small gradients beside a large sum.
    """
    types = [policy.param_dtype or p.dtype for each in modules for p in each.parameters()]
    if policy.reduce_dtype is None and any(each.itemsize < 4 for each in types):
        return dataclasses.replace(policy, reduce_dtype=torch.float32)
    return policy


def _check(modules: list[nn.Module], mesh: Any, chosen: Strategy, options: FSDPOptions) -> None:
    if mesh is not None and not isinstance(mesh, DeviceMesh):
        raise TypeError(f"fully_shard: mesh is a {type(mesh).__name__}, not a DeviceMesh; {ADVICE}")
    check_options(chosen, options)
    for each in modules:
        if isinstance(each, FSDPModule):
            raise ValueError(
                f"fully_shard: this {type(each).__name__} is sharded already; call fully_shard once for "
                "each module, inner ones first"
            )
    for inner in (inner for each in modules for inner in each.modules()):
        if isinstance(inner, FSDPModule) and unit_of(inner) is None:
            raise ValueError(
                f"fully_shard: a {type(inner).__name__} inside was sharded by torch's fully_shard; "
                "use paro.torch.fully_shard for all modules of a model"
            )
    for name, parameter in (named for each in modules for named in each.named_parameters()):
        if parameter.numel() == 0 and parameter.requires_grad:
            raise ValueError(
                f"fully_shard: parameter {name} of shape {list(parameter.shape)} has no elements, and "
                "torch's FSDP2 cannot reduce its gradient; freeze it (requires_grad=False) or take it out"
            )


def _device_type_of(modules: list[nn.Module]) -> str:
    for parameter in (parameter for each in modules for parameter in each.parameters()):
        return parameter.device.type
    names = ", ".join(type(each).__name__ for each in modules)
    raise ValueError(
        f"fully_shard: {names} has no parameters, so their device cannot tell the mesh; leave it out, or give mesh="
    )


def fully_shard(
    module: nn.Module | list[nn.Module],
    *,
    mesh: DeviceMesh | None = None,
    strategy: str | Strategy = "IIG",
    mp_policy: MixedPrecisionPolicy | None = None,
    reshard_after_forward: bool | None = None,
    **options: Unpack[FSDPOptions],
) -> Any:
    """torch.distributed.fsdp.fully_shard with a strategy. Collective: what is wrong on one rank is an error on all.

    Inner modules come first, all of a model with the same mesh and strategy. A policy without
    reduce_dtype reduces 16-bit gradients in fp32. Make the Optimizer before the first training
    step.

    Args:
        module: A module; several in a list are one unit, whose parameters are communicated
            together.
        mesh: Two dimensions, between groups and inside them; under G at all three states one
            dimension will do. None: init_mesh of the first parameter's device.
        strategy: Scopes of parameters, gradients and optimizer state, as "IIG", in any case.
        mp_policy: FSDP2's; None: no mixed precision.
        reshard_after_forward: None, or what the strategy's first letter says (N: False).
        **options: FSDP2's own, see `FSDPOptions`.

    Returns:
        `module`, which FSDP2 has made an FSDPModule in place.

    Raises:
        TypeError: The mesh is none, or there is no such option.
        ValueError: Strategy, mesh, option and modules do not fit together, or a module is sharded
            already.
        MismatchError: Ranks were given different things, or another rank has an error.
    """
    modules = module if isinstance(module, list) else [module]
    with checked_together("fully_shard", mesh) as compared:
        compared["strategy"] = chosen = strategy_of(strategy)
        compared["modules"] = [type(each).__name__ for each in modules]
        compared["reshard_after_forward"] = reshard_after_forward
        check_reshard_after_forward(chosen, reshard_after_forward, "fully_shard")
        _check(modules, mesh, chosen, options)
        if mesh is None:
            mesh = init_mesh(_device_type_of(modules))
        policy = _reducing_in_fp32(mp_policy or MixedPrecisionPolicy(), modules)
        made: Any = fsdp_fully_shard(
            module,
            mesh=shard_mesh(mesh, chosen),
            mp_policy=policy,
            reshard_after_forward=False if chosen.keeps_unsharded else reshard_after_forward or None,
            **options_for_fsdp2(chosen, options),
        )
        if options.get("shard_placement_fn") is not None:
            own = (parameter for each in modules for parameter in each.parameters())
            compared["placements"] = [str(each.placements) for each in own if isinstance(each, DTensor)]
    unit = Unit(modules, mesh, chosen, policy, options.get("ignored_params") or set())
    check = torch.compiler.disable(unit.check_optimizer)  # type: ignore[no-untyped-call]
    mark(unit)
    for each in modules:
        each.register_forward_pre_hook(check, prepend=True)
    watch_methods(unit, _drop_gradients)
    return made


def _drop_gradients(model: nn.Module) -> None:
    for module in model.modules():
        if (unit := unit_of(module)) is not None:
            drop_whole_gradients(unit.module)
            if unit.backward is not None:
                unit.backward.clear()
