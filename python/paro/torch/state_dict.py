"""State dicts for torch.distributed.checkpoint: the same names and tensors under every strategy."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed.checkpoint.metadata import MetadataIndex
from torch.distributed.tensor import DTensor

from paro.torch.checkpoint_tensor import TensorPieces
from paro.torch.optimizer import Optimizer
from paro.torch.units import plain_name

StateDict = dict[str, Any]


def _of_master(optimizer: Optimizer, parameter: nn.Parameter, tensor: torch.Tensor) -> torch.Tensor:
    """A tensor that has an element for each of the master's, as the part of the whole that it is."""
    master_range = optimizer.range_of_parameter(parameter)
    if master_range is None or tensor.shape != master_range.master.shape:
        return tensor
    assert isinstance(parameter, DTensor)
    chunks: Any = parameter.__create_chunk_list__()  # type: ignore[no-untyped-call]
    box = (tuple(chunks[0].offsets), tuple(chunks[0].sizes))
    return TensorPieces(tensor.detach(), tuple(parameter.shape), box, master_range.first)


def _model_state(model: nn.Module, optimizer: Optimizer) -> StateDict:
    """As model.state_dict(), with the fp32 masters under the parameters' names."""
    state: StateDict = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        name = plain_name(name)
        state[name] = tensor.detach() if isinstance(tensor, torch.Tensor) else tensor
        if optimizer.manages(tensor):
            master = optimizer.master_of(tensor)
            state[name] = _of_master(optimizer, tensor, master.detach())
    return state


@torch.no_grad()
def _create_state(optimizer: Optimizer) -> None:
    """Makes the state that a first step makes, of masters that have none, and changes nothing else."""
    masters = [master for _, master in optimizer.pairs()]
    lacking = [master for master in masters if not optimizer.inner.state[master]]
    if not lacking:
        return
    before = [master.detach().clone() for master in lacking]
    gradients = [master.grad for master in masters]
    decays = [group.get("weight_decay") for group in optimizer.param_groups]
    for master in masters:
        master.grad = None
    for master in lacking:
        master.grad = torch.zeros_like(master)
    for group in optimizer.param_groups:
        if "weight_decay" in group:  # which would be a gradient
            group["weight_decay"] = 0.0
    optimizer.inner.step()
    for group, decay in zip(optimizer.param_groups, decays, strict=True):
        if decay is not None:
            group["weight_decay"] = decay
    for master, gradient in zip(masters, gradients, strict=True):
        master.grad = gradient
    for master, value in zip(lacking, before, strict=True):
        master.copy_(value)
        for key, each in optimizer.inner.state[master].items():
            if key == "step" and isinstance(each, torch.Tensor):
                each.zero_()
            elif key == "mu_product":  # of NAdam: of no step yet
                each.fill_(1.0)
    optimizer.provisional += lacking


def _optimizer_state(optimizer: Optimizer) -> StateDict:
    """As torch.distributed.checkpoint.state_dict.get_optimizer_state_dict has it: by parameter name.

    Before a first step it has the state that this would make, so that a checkpoint can be loaded into it.
    """
    _create_state(optimizer)
    state = {}
    for parameter, master in optimizer.pairs():
        tensors = optimizer.inner.state[master]
        state[optimizer.names[id(master)]] = {
            key: _of_master(optimizer, parameter, each) if isinstance(each, torch.Tensor) else each
            for key, each in tensors.items()
        }
    groups = [
        {**group, "params": [optimizer.names[id(master)] for master in group["params"]]}
        for group in optimizer.param_groups
    ]
    return {"state": state, "param_groups": groups}


def get_state_dict(model: nn.Module, optimizer: Optimizer) -> tuple[StateDict, StateDict]:
    """State dicts of a model and its optimizer, for torch.distributed.checkpoint.save and load.

    The same names and whole shapes under every strategy. Before a first step the optimizer's has
    the state that this would make, so that a checkpoint can be loaded into it.

    Args:
        model: A model under fully_shard.
        optimizer: Its Optimizer.

    Returns:
        The model's and the optimizer's. Tensors are the ranks' own: a load writes into them, and
        set_state_dict then does the rest.
    """
    optimizer.take_what_was_written()
    return _model_state(model, optimizer), _optimizer_state(optimizer)


@torch.no_grad()
def set_state_dict(
    model: nn.Module, optimizer: Optimizer, *, model_state_dict: StateDict, optim_state_dict: StateDict
) -> None:
    """Takes what get_state_dict gave and a checkpoint was loaded into. Collective.

    Of whole tensors (as of full_state_dict) each rank takes its part.

    Args:
        model: A model under fully_shard.
        optimizer: Its Optimizer.
        model_state_dict: The model's, complete.
        optim_state_dict: The optimizer's, with the same parameter groups.

    Raises:
        ValueError: A tensor is missing or has another shape, or a group has other parameters. What
            came before it is written by then.
    """
    for name, tensor in _model_state(model, optimizer).items():
        if name not in model_state_dict:
            raise ValueError(f"set_state_dict: the model's state dict has no {name}")
        _copy(tensor, model_state_dict[name], name)
    for name, module in model.named_modules():
        name = plain_name(f"{name}._extra_state" if name else "_extra_state")
        takes = type(module).set_extra_state is not nn.Module.set_extra_state  # wrappers do not
        if takes and name in model_state_dict:
            module.set_extra_state(model_state_dict[name])
    groups = optim_state_dict["param_groups"]
    own = _optimizer_state(optimizer)
    for index, (group, loaded) in enumerate(zip(optimizer.param_groups, groups, strict=True)):
        if set(own["param_groups"][index]["params"]) != set(loaded["params"]):
            raise ValueError(f"set_state_dict: parameter group {index} has other parameters there")
        group.update({key: value for key, value in loaded.items() if key != "params"})
    for parameter, master in optimizer.pairs():
        name = optimizer.names[id(master)]
        loaded = optim_state_dict["state"][name]
        held = optimizer.inner.state[master]
        for key, value in loaded.items():
            if isinstance(held.get(key), torch.Tensor):
                _copy(_of_master(optimizer, parameter, held[key]), value, f"{key} of {name}")
            else:
                held[key] = value
    optimizer.provisional.clear()
    optimizer.gather_parameters()


def _copy(into: Any, value: Any, name: str) -> None:
    if not isinstance(into, torch.Tensor) or into is value:
        return
    spread: Any = into if isinstance(into, (DTensor, TensorPieces)) else None
    if into.shape != value.shape or (isinstance(value, (DTensor, TensorPieces)) and type(into) is not type(value)):
        raise ValueError(
            f"set_state_dict: {name} is a {type(value).__name__} of shape {tuple(value.shape)}, not "
            f"{tuple(into.shape)} as this model and strategy have it; give what get_state_dict gave, with a "
            "checkpoint loaded into it, or whole tensors"
        )
    if spread is not None and type(into) is not type(value):
        for chunk in spread.__create_chunk_list__():
            part = spread.__get_tensor_shard__(MetadataIndex(name, chunk.offsets))
            begins = zip(chunk.offsets, chunk.sizes, strict=True)
            part.copy_(value[tuple(slice(begin, begin + size) for begin, size in begins)])
        return
    if isinstance(into, TensorPieces):
        into, value = into.flat, value.flat
    if into.data_ptr() != value.data_ptr():
        into.copy_(value)
