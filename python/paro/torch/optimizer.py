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
from paro.torch.backward import Backward, backwards_of
from paro.torch.fsdp_private import give_up_passes
from paro.torch.masters import UnitMasters
from paro.torch.units import Unit, managed_parameters, name_units, trainable, units_of
from paro.torch.unsupported import refuse_scaler, refuse_state_dict_functions

# Each element's update depends on that element alone: pieces of a tensor may be updated apart. Subclasses may do
# otherwise.
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
    if not (isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)):
        raise TypeError(
            f"paro.torch.Optimizer: takes an optimizer's class and its options, as (torch.optim.AdamW, model, "
            f"lr=1e-4); this is a {type(kind).__name__}"
        )
    if issubclass(kind, NOT_ELEMENTWISE):
        raise ValueError(
            f"paro.torch.Optimizer: {kind.__name__} looks at more of a tensor than one element, and a "
            "rank has pieces of tensors only; use AdamW or another element-wise one"
        )
    if kind not in ELEMENTWISE and not elementwise:
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


def _ids(managed: list[list[tuple[str, nn.Parameter]]]) -> set[int]:
    return {id(parameter) for unit in managed for _, parameter in unit}


def _check_all_managed(
    model: nn.Module,
    units: list[Unit],
    managed: list[list[tuple[str, nn.Parameter]]],
    takes_all: bool,
) -> None:
    known = _ids(managed)
    ignored = {id(parameter) for unit in units for parameter in unit.ignored}
    if not any(parameter.requires_grad for unit in managed for _, parameter in unit):
        raise ValueError("paro.torch.Optimizer: all parameters are frozen; there is nothing to train")
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad or id(parameter) in known:
            continue
        if id(parameter) in ignored and takes_all:
            raise ValueError(
                f"paro.torch.Optimizer: {name} is in ignored_params, so its gradient is the program's to "
                "reduce; pass params= without it, and train it with an optimizer of its own"
            )
        if id(parameter) not in ignored:
            raise ValueError(
                f"paro.torch.Optimizer: {name} is in no module under fully_shard, so nothing would reduce "
                "its gradient; call fully_shard for the model itself too, or freeze it"
            )


def _groups_of(params: Iterable[Any], known: set[int]) -> list[dict[str, Any]]:
    """Groups of parameters in any form that torch takes, without frozen ones; `known` are trained.

    Raises:
        TypeError: It is one tensor.
        ValueError: A tensor is not the model's, or none is trained.
    """
    if isinstance(params, torch.Tensor):
        raise TypeError("paro.torch.Optimizer: params is one tensor; give a list of them, or of groups")
    parameters = list(params)
    groups = parameters if parameters and isinstance(parameters[0], dict) else [{"params": parameters}]
    found = []
    for group in groups:
        of = group["params"]
        members = [each[-1] if isinstance(each, tuple) else each  # named ones
                   for each in ([of] if isinstance(of, torch.Tensor) else of)]
        trained = [each for each in members if each.requires_grad]
        if any(id(each) not in known for each in trained):
            raise ValueError(
                "paro.torch.Optimizer: params has a tensor that is no trainable parameter of the model "
                "under fully_shard; take them from model.parameters() after fully_shard"
            )
        found.append({**group, "params": trained})
    if not any(group["params"] for group in found):
        raise ValueError("paro.torch.Optimizer: params has no trainable parameter")
    return found


def _options_of(options: dict[str, Any], where: str) -> dict[str, Any]:
    """By field, what ranks may compare: an object's text may hold its address."""
    plain = (bool, int, float, str, tuple, list, type(None), torch.Tensor)
    return {
        f"option {key}{where}": value if isinstance(value, plain) else type(value).__name__
        for key, value in options.items()
        if key != "params"
    }


def _groups_text(
    groups: list[dict[str, Any]], managed: list[list[tuple[str, nn.Parameter]]]
) -> dict[str, Any]:
    names = {id(parameter): name for unit in managed for name, parameter in unit}
    fields: dict[str, Any] = {}
    for index, group in enumerate(groups):
        fields.update(_options_of(group, f" of group {index}"))
        for parameter in group["params"]:
            fields.setdefault(f"the groups of {names[id(parameter)]}", []).append(index)
    return fields


def _settings_text(
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
        "kind of optimizer": getattr(kind, "__name__", "none"),
    }


@dataclass(frozen=True)
class MasterRange:
    """Where a master lies in its shard.

    Attributes:
        master: What the optimizer works on.
        first: The element of the flattened shard that it begins with.
        group: The ranks that split the shard; None: this rank alone.
    """

    master: nn.Parameter
    first: int
    group: dist.ProcessGroup | None


class Optimizer(torch.optim.Optimizer):
    """An element-wise optimizer of torch over what this rank has of the model's trainable parameters.

    Making it is collective, and comes before the first training step; parameters are initialised by
    then. Learning rate schedulers take it as they take `kind`.

    Where the optimizer's scope is that of the shards, and these are in fp32, it works on them as it
    does with FSDP2. Elsewhere it works on fp32 masters, which this makes. `.grad` of the parameters
    is None then.

    Args:
        kind: The optimizer's class, as torch.optim.AdamW. Made as `kind(params, **defaults)`.
        model: A model under fully_shard, whose modules all have one strategy.
        params: Parameters of the model, or groups of them with options of their own, in any form
            that torch takes; None: all trainable ones.
        elementwise: The program's word that a class that is not torch's own updates each element
            from that element alone.
        **defaults: Options of `kind`, the same on all ranks.

    Raises:
        TypeError: `kind` is no optimizer's class, or `params` is one tensor.
        ValueError: `kind` looks at more than one element, the model has an optimizer already or
            different strategies, or a parameter is under no unit, on the meta device or unknown.
        MismatchError: Ranks were given different things, or another rank has an error.
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
        ids = _ids(managed)
        known = [p for p in model.parameters() if p.requires_grad and id(p) in ids]
        groups: list[dict[str, Any]] = []
        error = None
        try:
            _check(kind, elementwise, self.units, managed)
            _check_all_managed(model, self.units, managed, params is None)
            groups = _groups_of(known if params is None else params, {id(p) for p in known})
        except (TypeError, ValueError) as refused:
            error = refused
        compared = {
            **_settings_text(kind, self.units, managed),
            **_options_of(defaults, ""),
            **_groups_text(groups, managed),
        }
        require_same(compared, "paro.torch.Optimizer", self.units[0].mesh, error)
        name_units(model, self.units)
        self.unit_masters: list[UnitMasters] = []
        # What the optimizer works on, by the parameter that the model has.
        self._of: dict[int, nn.Parameter] = {}
        self._ranges: dict[int, MasterRange] = {}
        self.names: dict[int, str] = {}  # of parameters and of their masters
        for unit, parameters in zip(self.units, managed, strict=True):
            self._take(unit, list(trainable(parameters)))
        self._parameters = known  # in the model's order, as FSDP2's programs have them
        self.backward = Backward([each.reduction for each in self.unit_masters], self.units, self.names)
        self._ignored = {id(each) for unit in self.units for each in unit.ignored}
        self.provisional: list[nn.Parameter] = []  # whose state was made for a state dict only
        self.inner = kind(self._translated(groups), **defaults)
        super().__init__([{"params": []}], self.inner.defaults)
        self._follow_inner()
        for each in self.unit_masters:
            each.follow_model()
        self._model_zero_grad = model.zero_grad
        model.zero_grad = self._zero_model  # type: ignore[method-assign]
        _made[self.backward] = weakref.ref(self)
        for unit in self.units:
            unit.backward = self.backward

    def _take(self, unit: Unit, parameters: list[tuple[str, nn.Parameter]]) -> None:
        if not parameters:
            return
        masters = [parameter for _, parameter in parameters]
        if unit.strategy.splits_shards or any(p.dtype.itemsize < 4 for _, p in parameters):
            made = UnitMasters(unit, parameters)
            self.unit_masters.append(made)
            masters = made.masters
            for piece, master in zip(made.layout.pieces, masters, strict=True):
                master_range = MasterRange(master, piece.range_of(made.row)[0], made.group)
                self._ranges[id(piece.parameter)] = master_range
        for (name, parameter), master in zip(parameters, masters, strict=True):
            self._of[id(parameter)] = master
            self.names[id(parameter)] = self.names[id(master)] = name

    def _follow_inner(self) -> None:
        """Schedulers and programs see its groups and states."""
        self.param_groups = self.inner.param_groups
        self.state = self.inner.state

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group of parameters of the model that no group has yet.

        Args:
            param_group: As for torch's optimizers.

        Raises:
            ValueError: It has no trainable parameter, or one that is not the model's.
        """
        if hasattr(self, "param_groups") and self.param_groups is self.inner.param_groups:
            groups = _groups_of([param_group], set(self._of))
            self.inner.add_param_group(self._translated(groups)[0])

    def __getstate__(self) -> Any:
        raise TypeError(
            "paro.torch.Optimizer: it cannot be copied or pickled, as its model's parameters call it; take "
            "paro.torch.get_state_dict(model, optimizer), or state_dict() for the same ranks"
        )

    @property
    def _step_supports_amp_scaling(self) -> bool:
        if self.unit_masters:
            refuse_scaler()
        return False

    def state_dict(self) -> dict[str, Any]:
        """This rank's state, for load_state_dict. For other ranks or strategies see get_state_dict.

        Returns:
            As torch's optimizers; tensors are not copied.

        Raises:
            TypeError: torch.distributed.checkpoint.state_dict calls it, and masters are apart.
        """
        if self.unit_masters:
            refuse_state_dict_functions("state_dict")
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes what state_dict() gave on this rank, under the same strategy on the same ranks.

        For others there are get_state_dict and set_state_dict, with distributed checkpoints.

        Args:
            state_dict: This rank's.

        Raises:
            TypeError: torch.distributed.checkpoint.state_dict calls it, and masters are apart.
            ValueError: Its groups are not this optimizer's.
        """
        if self.unit_masters:
            refuse_state_dict_functions("load_state_dict")
        self.inner.load_state_dict(state_dict)
        self._follow_inner()

    def _translated(self, groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**each, "params": [self._of[id(p)] for p in each["params"]]} for each in groups]

    @torch.no_grad()
    def finish_gradients(self, what: str) -> None:
        """Waits for the reductions. After it every master has its gradient. Collective.

        Args:
            what: The call, for errors.

        Raises:
            RuntimeError: Micro-batches were marked, none of them as the last.
            MismatchError: Ranks have made different calls or passes. Nothing was changed.
        """
        self.backward.finish(what)
        for each in self.unit_masters:
            each.set_gradients()

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Updates the parameters with the gradients since the last step. Collective.

        Waits for the reductions, and returns when the shards have the new values. Gradients are
        used up, whether or not zero_grad() is called. What the program has written to parameters is
        kept.

        Args:
            closure: torch's argument: only None is taken.

        Raises:
            ValueError: There is a closure.
            RuntimeError: No micro-batch was marked as the last, or a parameter was frozen or
                unfrozen since the optimizer was made.
            MismatchError: Ranks have made different calls or passes. Nothing was changed.
        """
        if closure is not None:
            raise ValueError("paro.torch.Optimizer.step: takes no closure")
        self.finish_gradients("Optimizer.step")
        self._drop_gathered()
        self._check_frozen()
        self.take_what_was_written()
        for master in self.provisional:  # a first step begins without state
            self.inner.state.pop(master, None)
        self.provisional.clear()
        self.inner.step()
        self.use_up_gradients()
        self.gather_parameters()

    def use_up_gradients(self) -> None:
        """At the end of a step: its sums are in no later one, whether or not zero_grad() is called.

        Nothing else could tell: `.grad` of a parameter whose sums are here is None all the time.
        """
        self.backward.clear()
        for each in self.unit_masters:
            for master in each.masters:
                master.grad = None

    def take_what_was_written(self) -> None:
        """What the program has written to parameters, in place, is what trains and is saved."""
        for each in self.unit_masters:
            each.take_what_was_written()

    @torch.no_grad()
    def gather_parameters(self) -> None:
        """Makes the shards what the masters are. Collective.

        Nothing is gathered: a step has dropped it, and so does a state dict.
        """
        gathers = [(each, *each.start_gather()) for each in self.unit_masters]
        for each, work, gathered in gathers:
            each.finish_gather(work, gathered)

    def _drop_gathered(self) -> None:
        """What a forward pass for evaluation has left gathered is no longer what the shards are."""
        for unit in self.units:
            unit.module.reshard()

    def _check_frozen(self) -> None:
        """The same ones as when the optimizer was made.

        Raises:
            RuntimeError: A parameter was frozen or unfrozen since then.
        """
        for parameter in self._parameters:
            if not parameter.requires_grad:
                raise RuntimeError(
                    f"Optimizer.step: {self.names[id(parameter)]} was frozen after the optimizer was made; make model "
                    "and optimizer again, and load a checkpoint, or set the learning rate of its group to 0"
                )
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad and not (self.manages(parameter) or id(parameter) in self._ignored):
                raise RuntimeError(
                    f"Optimizer.step: {name} was frozen when the optimizer was made, so it would not be "
                    "trained; make model and optimizer again, and load a checkpoint"
                )

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops all gradients, also sums of micro-batches, and those of a pass that an exception has ended.

        Collective where a step had begun. The model's own zero_grad does the same.

        Args:
            set_to_none: torch's argument. Memory is freed in any case.
        """
        if self.backward.begun:
            for unit in self.units:  # FSDP2 has sums of its own
                give_up_passes(unit.module)
        self.backward.clear()
        self.inner.zero_grad(set_to_none=True)
        self._model_zero_grad(set_to_none=True)

    def _zero_model(self, set_to_none: bool = True) -> None:
        self.zero_grad()

    def pairs(self) -> Iterable[tuple[nn.Parameter, nn.Parameter]]:
        """Parameters of the model with what the optimizer works on.

        Returns:
            In the model's order, the same one on all ranks.
        """
        return ((parameter, self._of[id(parameter)]) for parameter in self._parameters)

    def groups(self) -> list[dist.ProcessGroup]:
        """Process groups that one after the other reach all ranks that train this model.

        Returns:
            Those of tensor parallelism too; the same ones in the same order on each rank.
        """
        found: dict[dist.ProcessGroup, None] = {}
        for parameter in self._parameters:
            assert isinstance(parameter, DTensor)
            found.update(dict.fromkeys(parameter.device_mesh.get_all_groups()))
            if (split := self.split_group_of(parameter)) is not None:
                found[split] = None
        return list(found)

    def manages(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is a trainable parameter of the model.

        Args:
            tensor: Any tensor.

        Returns:
            Whether master_of() knows it.
        """
        return id(tensor) in self._of

    def master_of(self, parameter: nn.Parameter) -> nn.Parameter:
        """What the optimizer works on for a parameter.

        Args:
            parameter: A trainable parameter of the model.

        Returns:
            The parameter itself, or its fp32 master on this rank, in one dimension.

        Raises:
            KeyError: The optimizer does not manage it.
        """
        return self._of[id(parameter)]

    def range_of_parameter(self, parameter: nn.Parameter) -> MasterRange | None:
        """Where a master apart from the parameter lies.

        Args:
            parameter: A parameter of the model.

        Returns:
            None where parameter and master are the same.
        """
        return self._ranges.get(id(parameter))

    place_of = range_of_parameter  # its earlier name

    def split_group_of(self, parameter: nn.Parameter) -> dist.ProcessGroup | None:
        """The ranks that hold the same shard and split the optimizer's part of it.

        Args:
            parameter: A parameter of the model.

        Returns:
            Their group; None: nobody splits it.
        """
        master_range = self.range_of_parameter(parameter)
        return master_range.group if master_range is not None else None


# The optimizer of each model's passes. Nothing in it keeps one alive.
_made: weakref.WeakKeyDictionary[Backward, weakref.ref[Optimizer]] = weakref.WeakKeyDictionary()


def optimizer_gradient(master: nn.Parameter) -> torch.Tensor | None:
    """This rank's part of a gradient, as a plain tensor.

    Args:
        master: What the optimizer works on.

    Returns:
        The gradient itself, not a copy; None: there is none.
    """
    gradient = master.grad
    with torch.no_grad():
        return gradient.to_local() if isinstance(gradient, DTensor) else gradient


def optimizer_of(model: nn.Module, what: str) -> Optimizer:
    """The Optimizer of a model.

    Args:
        model: A model under fully_shard.
        what: The call, for errors.

    Returns:
        The optimizer that was made for it.

    Raises:
        ValueError: No module was given to fully_shard, or parts have optimizers of their own.
        RuntimeError: There is no Optimizer yet, or it was dropped.
    """
    backwards = backwards_of(units_of(model, what), what)
    if len(backwards) > 1:
        raise ValueError(f"{what}: parts of this model have optimizers of their own; call it for each part")
    made = _made.get(backwards[0])
    optimizer = made() if made is not None else None
    if optimizer is None:
        raise RuntimeError(f"{what}: make paro.torch.Optimizer for this model first")
    return optimizer
