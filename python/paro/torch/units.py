"""Units: what each call of fully_shard manages, and which units a model has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy
from torch.distributed.tensor import DTensor

from paro.torch.meshes import shard_mesh
from paro.torch.strategies import Strategy

_UNIT = "_paro_unit"


class Passes(Protocol):
    """What a unit tells of its backward passes, which `paro.torch.backward.Backward` is."""

    def arrives(self) -> None:
        """Before a gradient is added."""

    def completed(self) -> None:
        """A unit has all gradients of this pass."""

    def clear(self) -> None:
        """Drops all gradients."""


class Unit:
    """What one call of fully_shard manages. Its parameters are communicated together.

    Args:
        modules: At least one, under FSDP2 already.
        mesh: What fully_shard was given.
        strategy: The strategy.
        mp_policy: FSDP2's, with a reduce_dtype where one is needed.
        ignored: Parameters that the program reduces and trains itself.
    """

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
        self.backward: Passes | None = None  # once the optimizer is made
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
        """Before a forward pass: without an Optimizer of ours the groups would drift apart.

        Args:
            module: Whose forward pass begins.

        Raises:
            RuntimeError: It is a pass for training, and no Optimizer was made.
        """
        if self.backward is None and module.training and torch.is_grad_enabled():
            raise RuntimeError(
                f"paro: a forward pass for training under strategy {self.strategy} before the optimizer "
                "was made; make paro.torch.Optimizer(torch.optim.AdamW, model, ...) first"
            )


def mark(unit: Unit) -> None:
    """From now on the unit is found at its modules.

    Args:
        unit: The unit.
    """
    for module in unit.modules:
        setattr(module, _UNIT, unit)


def unit_of(module: nn.Module) -> Unit | None:
    """The unit that a module was given to fully_shard for.

    Args:
        module: Any module.

    Returns:
        None where it was not.
    """
    return getattr(module, _UNIT, None)


def units_of(model: nn.Module, what: str) -> list[Unit]:
    """The units of a model, in the order of its modules.

    Args:
        model: The model, or a part of it.
        what: The call, for errors.

    Returns:
        Each once.

    Raises:
        ValueError: There is none.
    """
    found = (unit_of(module) for module in model.modules())
    units = list(dict.fromkeys(unit for unit in found if unit is not None))
    if not units:
        raise ValueError(f"{what}: no module of this model was given to paro.torch.fully_shard")
    return units


def name_units(model: nn.Module, units: list[Unit]) -> None:
    """Gives units the names that their modules have in the model.

    Args:
        model: The model.
        units: Its units.
    """
    names = {id(module): name for name, module in model.named_modules()}
    for unit in units:
        unit.name = plain_name(names[id(unit.modules[0])]) or unit.name


def plain_name(name: str) -> str:
    """A name without what checkpoint_wrapper and torch.compile add.

    Args:
        name: Of a parameter or module, with dots.

    Returns:
        The name as torch.distributed.checkpoint.state_dict has it.
    """
    added = ("_checkpoint_wrapped_module", "_orig_mod")
    return ".".join(part for part in name.split(".") if part not in added)


def managed_parameters(model: nn.Module, units: list[Unit]) -> list[list[tuple[str, nn.Parameter]]]:
    """The parameters that units manage, tied ones once.

    Args:
        model: The model.
        units: Its units.

    Returns:
        For each unit names, as in the model's state dict, and parameters.
    """
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
    """Those parameters that are not frozen.

    Args:
        parameters: With their names.

    Returns:
        In the same order.
    """
    return ((name, parameter) for name, parameter in parameters if parameter.requires_grad)
