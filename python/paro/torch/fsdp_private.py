"""What paro.torch takes from FSDP2 that FSDP2 does not promise, and the releases of torch that have it."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule  # a release without it is refused below, by its number

OLDEST = (2, 11)
NEWEST = (2, 14)
_INSIDE = "torch.distributed.fsdp._fully_shard."
# Names of FSDP2's classes, by class. One of those with "or" between them is enough.
NEEDED = {
    ("_fully_shard", "FSDPModule"): ["_get_fsdp_state"],
    ("_fsdp_state", "FSDPState"): [
        "_auto_reshard_after_forward",
        "_fsdp_param_groups or _fsdp_param_group",  # up to torch 2.11 a state has one group or none
        "_is_root",
    ],
    ("_fsdp_param_group", "FSDPParamGroup"): [
        "_all_gather_result",
        "_partial_reduce_output",
        "_training_state",
        "all_reduce_grads",
        "force_sum_reduction_for_comms",
        "fsdp_params",
        "gradient_divide_factor",
        "is_unsharded",
        "post_backward",
        "post_forward_mesh_info",
        "reduce_grads",
        "unshard",
        "wait_for_unshard",
    ],
    ("_fsdp_param", "FSDPParam"): ["_unsharded_param", "sharded_param", "unsharded_accumulated_grad"],
}


def fsdp_classes() -> dict[str, type]:
    """The classes of FSDP2 that NEEDED speaks of.

    Returns:
        Those that this torch has, by name.
    """
    found: dict[str, type] = {}
    for module, name in NEEDED:
        with contextlib.suppress(ImportError, AttributeError):
            found[name] = getattr(importlib.import_module(_INSIDE + module), name)
    return found


def _names_of(kind: type) -> set[str]:
    """Of what a class has and of what its methods speak: attributes are made by them."""
    functions = [inspect.unwrap(each) for each in vars(kind).values() if inspect.isfunction(each)]
    return {name for each in functions for name in each.__code__.co_names} | set(dir(kind))


def check_release(version: str, classes: Mapping[str, type]) -> None:
    """Checks that paro.torch is written for a release of torch.

    Args:
        version: A text as torch.__version__.
        classes: As of `fsdp_classes`.

    Raises:
        ImportError: It is not. The text names the releases, this one, and what it lacks.
    """
    texts = [".".join(map(str, each)) for each in (OLDEST, NEWEST)]
    works = f"paro.torch works with torch {texts[0]} to {texts[1]}, and this is torch {version}"
    advice = f'install another one, as with: pip install "torch>={texts[0]},<{NEWEST[0]}.{NEWEST[1] + 1}"'
    if not OLDEST <= tuple(map(int, version.split(".")[:2])) <= NEWEST:
        raise ImportError(f"{works}; {advice}")
    lacking = []
    for (_, name), needed in NEEDED.items():
        found = _names_of(classes[name]) if name in classes else set()
        lacking += [f"{name}.{each}" for each in needed if found.isdisjoint(each.split(" or "))]
    if lacking:
        raise ImportError(f"{works}, whose FSDP2 lacks {', '.join(lacking)}; {advice}")


check_release(torch.__version__, fsdp_classes())


def parameter_groups(module: FSDPModule) -> list[Any]:
    """FSDP2's own groups of parameters.

    Args:
        module: Of one call of fully_shard.

    Returns:
        Each has what NEEDED says of FSDPParamGroup.
    """
    return _groups_in(module._get_fsdp_state())


def _groups_in(state: Any) -> list[Any]:
    if hasattr(state, "_fsdp_param_groups"):
        return list(state._fsdp_param_groups)
    return [] if state._fsdp_param_group is None else [state._fsdp_param_group]


def _parameters_of(module: FSDPModule) -> Iterator[Any]:
    """FSDP2's own parameters: `sharded_param`, and perhaps `_unsharded_param` and `unsharded_accumulated_grad`."""
    return (each for group in parameter_groups(module) for each in group.fsdp_params)


def held_tensors(module: FSDPModule) -> tuple[list[torch.Tensor], list[torch.Tensor | None]]:
    """What FSDP2 holds of a unit now.

    Args:
        module: Of one call of fully_shard.

    Returns:
        Parameters, sharded and gathered; gradients.
    """
    parameters: list[torch.Tensor] = []
    gradients: list[torch.Tensor | None] = [group._partial_reduce_output for group in parameter_groups(module)]
    for each in _parameters_of(module):
        parameters.append(each.sharded_param)
        gradients += [each.sharded_param.grad, each.unsharded_accumulated_grad]
        gathered = getattr(each, "_unsharded_param", None)
        if gathered is not None:
            parameters.append(gathered)
            gradients.append(gathered.grad)
    return parameters, gradients


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
    for each in _parameters_of(module):
        each.unsharded_accumulated_grad = None
        gathered = getattr(each, "_unsharded_param", None)
        if gathered is not None:
            gathered.grad = None


def give_up_passes(module: FSDPModule) -> None:
    """Drops what passes since the last step have left, also one that an exception has ended.

    Args:
        module: Of one call of fully_shard. FSDP2's roots drop it for all modules inside.
    """
    state: Any = module._get_fsdp_state()
    if state._is_root:
        if hasattr(module, "reset_iter_state"):  # from torch 2.13 on
            module.reset_iter_state()
        else:
            _reset(state)
    drop_whole_gradients(module)


def _reset(root: Any) -> None:
    if root._device.type != "cpu":
        root._device_handle.synchronize()  # what is under way still uses what is dropped here
    shared, passes = root._comm_ctx, root._state_ctx
    shared.all_gather_state = shared.reduce_scatter_state = None
    shared.reduce_scatter_states = []  # in torch 2.12 instead of the one
    shared.post_forward_order.clear()
    passes.iter_forward_root = None
    passes.post_backward_final_callback_queued = False
    for state in passes.all_states:
        idle = type(state._training_state).IDLE
        state._modules_to_run_forward.clear()
        state._training_state = idle
        for group in _groups_in(state):
            work = getattr(group._all_gather_result, "all_gather_work", None)
            if work is not None:
                work.wait()
            for name in ("_all_gather_result", "_all_reduce_state", "_partial_reduce_output", "_post_reduce_event",
                         "_reshard_after_forward_event"):  # fmt: skip
                setattr(group, name, None)
            group._post_forward_indices.clear()
            group._training_state = idle
            group._to_sharded()


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
    unused_too = getattr(group, "reduce_scatter_unused_params", False)  # from torch 2.13 on
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
