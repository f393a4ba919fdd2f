"""The methods and options of FSDP2 under a strategy: each is honoured, or refused by its name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

import torch
from torch import nn
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, OffloadPolicy
from torch.distributed.tensor import Shard

from paro.torch.fsdp_private import gradient_divide_factor, sums_alone
from paro.torch.strategies import Scope, Strategy
from paro.torch.units import Unit


class FSDPOptions(TypedDict, total=False):
    """Options of fully_shard that are FSDP2's own, with its meaning.

    Attributes:
        shard_placement_fn: Says along which dimension a parameter is sharded. Under IIG, NIG, ING
            and IGG: a Shard or None.
        ignored_params: Parameters that stay whole, and are the program's to reduce and to train.
        offload_policy: Where shards are kept. CPUOffloadPolicy not under IIG, NIG, ING and IGG.
    """

    shard_placement_fn: Callable[[nn.Parameter], Any]
    ignored_params: set[nn.Parameter]
    offload_policy: OffloadPolicy


# What FSDP2 does is right under every strategy. The factor is read where gradients leave the group.
HONOURED = frozenset({
    "reshard",
    "set_allocate_memory_from_process_group_for_comm",
    "set_custom_all_gather",
    "set_custom_reduce_scatter",
    "set_is_last_backward",
    "set_modules_to_backward_prefetch",
    "set_modules_to_forward_prefetch",
    "set_post_optim_event",
    "set_reduce_scatter_divide_factor",  # calls set_gradient_divide_factor
    "set_reduce_scatter_max_input_buffers",
    "set_reduce_scatter_unused_params",
    "set_requires_gradient_sync",
    "set_reshard_after_backward",
    "set_separate_reduce_scatter_group",
    "set_symm_mem_for_comm",
    "set_unshard_in_backward",
    "unshard",
})  # fmt: skip


def check_reshard_after_forward(strategy: Strategy, value: Any, call: str) -> None:
    """The strategy's first letter says it; None leaves it to the strategy.

    Args:
        strategy: The strategy.
        value: What was given as reshard_after_forward.
        call: The caller's name, for errors.

    Raises:
        ValueError: They contradict each other.
    """
    splits = strategy.parameters is not Scope.N
    if value is not None and value is not splits:
        done = "are released after their use" if splits else "stay gathered between micro-batches"
        others = "N" if splits else "I or G"
        raise ValueError(
            f"{call}: reshard_after_forward is {value!r}, but under strategy {strategy} parameters {done}; give "
            f"{splits} or None, or take a strategy whose first letter is {others}"
        )


def _set_reshard_after_forward(unit: Unit, reshard_after_forward: Any, **_: Any) -> None:
    check_reshard_after_forward(unit.strategy, reshard_after_forward, "set_reshard_after_forward")


def _set_requires_all_reduce(unit: Unit, requires_all_reduce: Any, **_: Any) -> None:
    if unit.strategy.splits_shards and not requires_all_reduce:
        raise ValueError(
            f"set_requires_all_reduce: under strategy {unit.strategy} no all-reduce of FSDP2 leaves the group, so "
            "nothing would be held back; use microbatch(model, last=False)"
        )


def _set_all_reduce_hook(unit: Unit, *_: Any, **__: Any) -> None:
    if unit.strategy.splits_shards:
        raise ValueError(
            f"set_all_reduce_hook: under strategy {unit.strategy} it would see sums of one group, before they are "
            "reduced between groups; use III or GGG"
        )


def _check_divided_once(unit: Unit, call: str, factor: float | None, sums: bool) -> None:
    """Where shards have one rank, FSDP2 divides twice in types that it does not let the network average.

    Raises:
        ValueError: It would divide by another number than 1.
    """
    reduced = unit.mp_policy.reduce_dtype or unit.mp_policy.param_dtype
    kinds = {reduced or parameter.dtype for each in unit.modules for parameter in each.parameters()}
    apart = sums or not kinds <= {torch.float32, torch.bfloat16}
    if unit.shard_count == 1 and apart and factor not in (None, 1):
        raise ValueError(
            f"{call}: FSDP2 would divide by {factor} twice, as each rank has whole parameters; reduce in float32 or "
            "bfloat16 without set_force_sum_reduction_for_comms, or divide the loss"
        )


def _set_gradient_divide_factor(unit: Unit, factor: float) -> None:
    _check_divided_once(unit, "set_gradient_divide_factor", factor, sums_alone(unit.module))


def _set_force_sum_reduction_for_comms(unit: Unit, enable: bool) -> None:
    _check_divided_once(
        unit, "set_force_sum_reduction_for_comms", gradient_divide_factor(unit.module), enable
    )


# What looks at the arguments first, and raises ValueError for what the strategy cannot have.
CHECKED: dict[str, Callable[..., None]] = {
    "set_all_reduce_hook": _set_all_reduce_hook,
    "set_force_sum_reduction_for_comms": _set_force_sum_reduction_for_comms,
    "set_gradient_divide_factor": _set_gradient_divide_factor,
    "set_requires_all_reduce": _set_requires_all_reduce,
    "set_reshard_after_forward": _set_reshard_after_forward,
}

# What drops gradients drops all of them: FSDP2 leaves those of gathered parameters, and paro.torch has sums.
DROPPING = frozenset({"reset_iter_state"})


def _replaced(unit: Unit, module: nn.Module, name: str, drop: Callable[[nn.Module], None]) -> Callable[..., Any]:
    theirs = getattr(module, name)

    @functools.wraps(theirs)
    def call(*arguments: Any, **options: Any) -> Any:
        if name in CHECKED:
            CHECKED[name](unit, *arguments, **options)
        elif name not in DROPPING:
            raise NotImplementedError(
                f"{name}: paro.torch does not know what this method of torch {torch.__version__} does to strategy "
                f"{unit.strategy}; leave it out"
            )
        result = theirs(*arguments, **options)
        if name in DROPPING:
            drop(module)
        return result

    return call


def public_methods() -> set[str]:
    """What a program may call on a module that FSDP2 shards.

    Returns:
        The names of the methods of this torch's FSDPModule.
    """
    return {name for name, each in vars(FSDPModule).items() if callable(each) and not name.startswith("_")}


def watch_methods(unit: Unit, drop: Callable[[nn.Module], None]) -> None:
    """From now on calls of FSDP2's methods on a unit's modules are honoured or refused, as the lists here say.

    Args:
        unit: The unit.
        drop: Drops all gradients of a module and of those inside.
    """
    for module in unit.modules:
        for name in public_methods() - HONOURED:
            setattr(module, name, _replaced(unit, module, name, drop))


def check_options(strategy: Strategy, options: Mapping[str, Any]) -> None:
    """Checks options of fully_shard.

    Args:
        strategy: The strategy.
        options: What was given, by name.

    Raises:
        TypeError: There is no such option.
        ValueError: The strategy cannot have it.
    """
    unknown = set(options) - {*FSDPOptions.__annotations__, "dp_mesh_dims"}
    if unknown:
        raise TypeError(f"fully_shard: paro.torch takes no option {', '.join(sorted(unknown))}")
    if options.get("dp_mesh_dims") is not None:
        raise ValueError(
            "fully_shard: dp_mesh_dims is not taken, as the strategy says which dimensions of the mesh shard; give "
            "the two dimensions between and inside groups as mesh="
        )
    if strategy.splits_shards and isinstance(options.get("offload_policy"), CPUOffloadPolicy):
        raise ValueError(
            f"fully_shard: strategy {strategy} reduces shards between groups on their device; leave "
            "offload_policy out, or use GGG or III"
        )


def options_for_fsdp2(strategy: Strategy, options: FSDPOptions) -> FSDPOptions:
    """Options as FSDP2 gets them.

    Args:
        strategy: The strategy.
        options: What was given.

    Returns:
        The same, with a shard_placement_fn that gives shards of the strategy's own mesh only, where
        pieces depend on it. It raises ValueError for any other.

    Raises:
        ValueError: Later, when FSDP2 asks for a placement that the strategy cannot have.
    """
    placement_of = options.get("shard_placement_fn")
    if placement_of is None or not strategy.splits_shards:
        return options

    def placed(parameter: nn.Parameter) -> Any:
        found = placement_of(parameter)
        if found is not None and not isinstance(found, Shard):
            raise ValueError(
                f"fully_shard: shard_placement_fn gave a {type(found).__name__}; under strategy {strategy} all "
                "parameters are sharded over the groups of mesh=, so give a Shard or None"
            )
        return found

    return {**options, "shard_placement_fn": placed}
