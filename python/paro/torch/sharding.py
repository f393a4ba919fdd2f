"""fully_shard: FSDP2's, told what a strategy asks of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy
from torch.distributed.fsdp import fully_shard as fsdp_fully_shard
from torch.distributed.tensor import DTensor

from paro.torch.agreement import checked_together
from paro.torch.fsdp_methods import (
    check_options,
    check_reshard_after_forward,
    options_for_fsdp2,
    watch_methods,
)
from paro.torch.fsdp_private import drop_whole_gradients
from paro.torch.meshes import ADVICE, init_mesh, shard_mesh
from paro.torch.strategies import Strategy, strategy_of

if TYPE_CHECKING:
    from paro.torch.backward import Backward

_UNIT = "_paro_unit"


class Unit:
    """What one call of fully_shard manages. Its parameters are communicated together."""

    def __init__(
        self,
        modules: list[nn.Module],
        mesh: DeviceMesh,
        strategy: Strategy,
        mp_policy: MixedPrecisionPolicy,
        ignored: set[nn.Parameter],
    ) -> None:
        self.modules = modules
        self.ignored = ignored  # which the program reduces and trains itself
        self.mesh = mesh
        self.shard_mesh = shard_mesh(mesh, strategy)
        self.strategy = strategy
        self.mp_policy = mp_policy
        self.backward: Backward | None = None  # once the optimizer is made
        self.name = type(modules[0]).__name__.removeprefix("FSDP")  # then that in the model

    @property
    def module(self) -> FSDPModule:
        """Any of them: they share FSDP2's state."""
        module = self.modules[0]
        assert isinstance(module, FSDPModule)
        return module

    @property
    def shard_count(self) -> int:
        """Ranks that FSDP2 splits a parameter over."""
        return self.shard_mesh.size(self.shard_mesh.ndim - 1)

    def check_optimizer(self, module: nn.Module, *_: Any) -> None:
        """Before a forward pass: without an Optimizer of ours the groups would drift apart."""
        if self.backward is None and module.training and torch.is_grad_enabled():
            raise RuntimeError(
                f"paro: a forward pass for training under strategy {self.strategy} before the optimizer "
                "was made; make paro.torch.Optimizer(torch.optim.AdamW, model, ...) first"
            )


def _reducing_in_fp32(policy: MixedPrecisionPolicy, modules: list[nn.Module]) -> MixedPrecisionPolicy:
    """FSDP2 sums micro-batches in the type in which it reduces, which is that of the parameters where
    the policy does not say it. 16 bits lose small gradients beside a large sum."""
    types = [policy.param_dtype or p.dtype for each in modules for p in each.parameters()]
    if policy.reduce_dtype is None and any(each.itemsize < 4 for each in types):
        return dataclasses.replace(policy, reduce_dtype=torch.float32)
    return policy


def _check(modules: list[nn.Module], mesh: Any, chosen: Strategy, options: dict[str, Any]) -> None:
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
    **options: Any,
) -> Any:
    """As torch.distributed.fsdp.fully_shard, with a strategy: reshard_after_forward is None, or what its
    first letter says (N: False). Several modules in a list are one unit. Returns `module`. A policy without
    reduce_dtype reduces 16-bit gradients in fp32.

    `mesh`: two dimensions, between groups and inside them [init_mesh of the first parameter's
    device]; under G at all three states one dimension will do. `options` are FSDP2's: shard_placement_fn,
    ignored_params, offload_policy (not where the optimizer splits shards). Inner modules come first,
    all of a model with the same mesh and strategy. Collective: what is wrong on one rank is an error on all.
    """
    modules = module if isinstance(module, list) else [module]
    with checked_together("fully_shard", mesh) as told:
        told["strategy"] = chosen = strategy_of(strategy)
        told["modules"] = [type(each).__name__ for each in modules]
        told["reshard_after_forward"] = reshard_after_forward
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
            told["placements"] = [str(each.placements) for each in own if isinstance(each, DTensor)]
    unit = Unit(modules, mesh, chosen, policy, options.get("ignored_params") or set())
    check = torch.compiler.disable(unit.check_optimizer)  # type: ignore[no-untyped-call]
    for each in modules:
        setattr(each, _UNIT, unit)
        each.register_forward_pre_hook(check, prepend=True)
    watch_methods(unit, _drop_gradients)
    return made


def _drop_gradients(model: nn.Module) -> None:
    for module in model.modules():
        if (unit := unit_of(module)) is not None:
            drop_whole_gradients(unit.module)
            if unit.backward is not None:
                unit.backward.clear()


def unit_of(module: nn.Module) -> Unit | None:
    return getattr(module, _UNIT, None)


def units_of(model: nn.Module, what: str) -> list[Unit]:
    """In the order of modules. Raises ValueError where there is none, naming the caller."""
    found = (unit_of(module) for module in model.modules())
    units = list(dict.fromkeys(unit for unit in found if unit is not None))
    if not units:
        raise ValueError(f"{what}: no module of this model was given to paro.torch.fully_shard")
    return units


def name_units(model: nn.Module, units: list[Unit]) -> None:
    names = {id(module): name for name, module in model.named_modules()}
    for unit in units:
        unit.name = plain_name(names[id(unit.modules[0])]) or unit.name


def plain_name(name: str) -> str:
    """Without what checkpoint_wrapper and torch.compile add, as torch.distributed.checkpoint.state_dict has it."""
    added = ("_checkpoint_wrapped_module", "_orig_mod")
    return ".".join(part for part in name.split(".") if part not in added)


def managed_parameters(model: nn.Module, units: list[Unit]) -> list[list[tuple[str, nn.Parameter]]]:
    """By unit: the parameters that it manages, tied ones once, named as in the model's state dict."""
    owners = {id(each): index for index, unit in enumerate(units) for each in unit.modules}
    found: list[list[tuple[str, nn.Parameter]]] = [[] for _ in units]
    seen: set[int] = set()

    def visit(module: nn.Module, prefix: str, owner: int | None) -> None:
        owner = owners.get(id(module), owner)
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) not in seen and isinstance(parameter, DTensor) and owner is not None:
                seen.add(id(parameter))
                found[owner].append((plain_name(prefix + name), parameter))
        for name, child in module.named_children():
            visit(child, f"{prefix}{name}.", owner)

    visit(model, "", None)
    return found


def trainable(parameters: list[tuple[str, nn.Parameter]]) -> Iterator[tuple[str, nn.Parameter]]:
    return ((name, parameter) for name, parameter in parameters if parameter.requires_grad)
