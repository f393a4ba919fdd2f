"""Optimizer: any element-wise optimizer of torch, at the strategy's scope."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor

from paro.torch.agreement import require_same
from paro.torch.backward import Backward
from paro.torch.masters import UnitMasters
from paro.torch.sharding import Unit, managed_parameters, trainable, units_of

# Each element's update depends on that element alone: pieces of a tensor may be updated apart.
ELEMENTWISE = (
    torch.optim.SGD,
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.Adamax,
    torch.optim.Adagrad,
    torch.optim.Adadelta,
    torch.optim.RMSprop,
    torch.optim.Rprop,
    torch.optim.ASGD,
)
NOT_ELEMENTWISE = tuple(
    getattr(torch.optim, name)
    for name in ("Muon", "LBFGS", "Adafactor", "SparseAdam")
    if hasattr(torch.optim, name)
)


def _check_elementwise(kind: type[torch.optim.Optimizer], elementwise: bool) -> None:
    if issubclass(kind, NOT_ELEMENTWISE):
        raise ValueError(
            f"paro.torch.Optimizer: {kind.__name__} looks at more of a tensor than one element, and a "
            "rank has pieces of tensors only; use AdamW or another element-wise one"
        )
    if not issubclass(kind, ELEMENTWISE) and not elementwise:
        raise ValueError(
            f"paro.torch.Optimizer: {kind.__name__} is not one of torch's element-wise optimizers; if each "
            "element's update depends on that element alone, add elementwise=True"
        )


def _check(
    kind: type[torch.optim.Optimizer],
    elementwise: bool,
    units: list[Unit],
    managed: list[list[tuple[str, nn.Parameter]]],
) -> None:
    _check_elementwise(kind, elementwise)
    if any(unit.backward is not None for unit in units):
        raise ValueError("paro.torch.Optimizer: this model has one already; make one for a model")
    for name, parameter in (each for unit in managed for each in unit):
        if parameter.is_meta:
            raise ValueError(
                f"paro.torch.Optimizer: {name} is on the meta device; model.to_empty(device=...), then "
                "initialise its parameters before the optimizer is made"
            )
    strategies = {str(unit.strategy) for unit in units}
    if len(strategies) > 1:
        raise ValueError(
            f"paro.torch.Optimizer: the model's modules have strategies {', '.join(sorted(strategies))}; "
            "give all of them the same one"
        )


def _described(
    kind: type[torch.optim.Optimizer], units: list[Unit], managed: list[list[tuple[str, nn.Parameter]]]
) -> dict[str, Any]:
    """What must be the same on all ranks."""
    return {
        "strategies": [str(unit.strategy) for unit in units],
        "meshes": [unit.mesh.mesh.tolist() for unit in units],
        "units": [[name for name, _ in each] for each in managed],
        "shapes": [[tuple(p.shape) for _, p in each] for each in managed],
        "types": [[str(p.dtype) for _, p in each] for each in managed],
        "frozen parameters": [[n for n, p in each if not p.requires_grad] for each in managed],
        "mp_policy": [str(unit.mp_policy) for unit in units],
        "kind of optimizer": kind.__name__,
    }


@dataclass(frozen=True)
class Place:
    """Where a master lies: from element `first` of its flattened shard, which the ranks of `group`
    split."""

    master: nn.Parameter
    first: int
    group: dist.ProcessGroup | None


class Optimizer(torch.optim.Optimizer):
    """`kind(params, **defaults)` over what this rank has of the model's trainable parameters.

    Collective, and before the first training step; parameters are initialised by then. `params` are
    `kind`'s: parameters of the model, or groups of them with options of their own [all trainable
    ones]. Learning rate schedulers take it as they take `kind`.

    Where the optimizer's scope is that of the shards, and these are in fp32, it works on them as it
    does with FSDP2. Elsewhere it works on fp32 masters, which this makes.
    """

    def __init__(
        self,
        kind: type[torch.optim.Optimizer],
        model: nn.Module,
        params: Iterable[Any] | None = None,
        *,
        elementwise: bool = False,
        **defaults: Any,
    ) -> None:
        self.model = model
        self.units = units_of(model, "paro.torch.Optimizer")
        managed = managed_parameters(model, self.units)
        error = None
        try:
            _check(kind, elementwise, self.units, managed)
        except ValueError as refused:
            error = refused
        told = _described(kind, self.units, managed)
        require_same(told, "paro.torch.Optimizer", self.units[0].mesh, error)
        self.unit_masters: list[UnitMasters] = []
        # What the optimizer works on, by the parameter that the model has.
        self._of: dict[int, nn.Parameter] = {}
        self._places: dict[int, Place] = {}
        self.names: dict[int, str] = {}  # of parameters and of their masters
        for unit, parameters in zip(self.units, managed, strict=True):
            self._take(unit, list(trainable(parameters)))
        # In the model's order, as FSDP2's programs have them.
        self._parameters = [p for p in model.parameters() if id(p) in self._of]
        self.backward = Backward([each.reduction for each in self.unit_masters])
        self.inner = kind(self._translated(params), **defaults)
        super().__init__(self.inner.param_groups, self.inner.defaults)
        self.param_groups = self.inner.param_groups
        self.state = self.inner.state
        for each in self.unit_masters:
            each.take_gradients()
        self.backward.optimizer = weakref.ref(self)
        for unit in self.units:
            unit.backward = self.backward

    def _take(self, unit: Unit, parameters: list[tuple[str, nn.Parameter]]) -> None:
        if not parameters:
            return
        masters = [parameter for _, parameter in parameters]
        if unit.strategy.splits_shards or any(p.dtype is not torch.float32 for _, p in parameters):
            made = UnitMasters(unit, parameters)
            self.unit_masters.append(made)
            masters = made.masters
            for piece, master in zip(made.layout.pieces, masters, strict=True):
                place = Place(master, piece.range_of(made.row)[0], made.group)
                self._places[id(piece.parameter)] = place
        for (name, parameter), master in zip(parameters, masters, strict=True):
            self._of[id(parameter)] = master
            self.names[id(parameter)] = self.names[id(master)] = name

    def _translated(self, params: Iterable[Any] | None) -> list[Any]:
        if params is None:
            return [self._of[id(parameter)] for parameter in self._parameters]
        return [
            {**each, "params": [self._master(p) for p in each["params"]]}
            if isinstance(each, dict)
            else self._master(each)
            for each in params
        ]

    def _master(self, parameter: nn.Parameter) -> nn.Parameter:
        if id(parameter) not in self._of:
            raise ValueError(
                "paro.torch.Optimizer: params has a tensor that is no trainable parameter of the model "
                "under fully_shard; take them from model.parameters() after fully_shard"
            )
        return self._of[id(parameter)]

    @torch.no_grad()
    def finish_gradients(self, what: str) -> None:
        """Waits for the reductions. After it every master has its gradient."""
        self.backward.finish(what)
        for each in self.unit_masters:
            each.set_gradients()

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        if closure is not None:
            raise ValueError("paro.torch.Optimizer.step: takes no closure")
        self.finish_gradients("Optimizer.step")
        self._drop_gathered()
        self.inner.step()
        self.gather_parameters()

    @torch.no_grad()
    def gather_parameters(self) -> None:
        """Makes the parameters what the masters are. Collective."""
        self._drop_gathered()
        gathers = [(each, *each.start_gather()) for each in self.unit_masters]
        for each, work, gathered in gathers:
            each.finish_gather(work, gathered)

    def _drop_gathered(self) -> None:
        """What a forward pass for evaluation has left gathered is no longer what the shards are."""
        for unit in self.units:
            unit.module.reshard()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops all gradients, also sums of micro-batches, and those of a pass that an exception has
        ended. Collective where a step had begun. Memory is freed in any case."""
        if self.backward.begun:
            for unit in self.units:
                if self.model in unit.modules:  # FSDP2 has sums of its own; its root knows all of them
                    unit.module.reset_iter_state()
        self.backward.clear()
        self.inner.zero_grad(set_to_none=True)
        self.model.zero_grad(set_to_none=True)

    def pairs(self) -> Iterable[tuple[nn.Parameter, nn.Parameter]]:
        """Parameters of the model with what the optimizer works on."""
        return ((parameter, self._of[id(parameter)]) for parameter in self._parameters)

    def manages(self, tensor: torch.Tensor) -> bool:
        """Whether it is a trainable parameter of the model."""
        return id(tensor) in self._of

    def master_of(self, parameter: nn.Parameter) -> nn.Parameter:
        return self._of[id(parameter)]

    def place_of(self, parameter: nn.Parameter) -> Place | None:
        """Of a master apart from the parameter; None where they are the same."""
        return self._places.get(id(parameter))

    def split_group_of(self, parameter: nn.Parameter) -> dist.ProcessGroup | None:
        """The ranks that hold the same shard and split the optimizer's part of it."""
        place = self.place_of(parameter)
        return place.group if place is not None else None


def optimizer_gradient(master: nn.Parameter) -> torch.Tensor | None:
    """This rank's part of the gradient, as a plain tensor."""
    gradient = master.grad
    with torch.no_grad():
        return gradient.to_local() if isinstance(gradient, DTensor) else gradient


def optimizer_of(model: nn.Module, what: str) -> Optimizer:
    backward = units_of(model, what)[0].backward
    optimizer = backward.optimizer() if backward is not None else None
    if optimizer is None:
        raise RuntimeError(f"{what}: make paro.torch.Optimizer for this model first")
    return optimizer
