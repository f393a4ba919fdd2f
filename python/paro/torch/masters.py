"""fp32 masters of a unit's parameters at the optimizer's scope, and the way to and from them."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from paro.torch.fsdp_private import gradient_divide_factor
from paro.torch.partition import Layout, local_of
from paro.torch.reduction import Reduction, all_gather
from paro.torch.units import Unit


class UnitMasters:
    """Masters apart from the parameters: one row of the layout, a parameter of the optimizer each.

    Args:
        unit: The unit.
        parameters: Its trainable parameters with their names; at least one.
    """

    def __init__(self, unit: Unit, parameters: list[tuple[str, nn.Parameter]]) -> None:
        self.unit = unit
        rows, row = 1, 0
        self.group: dist.ProcessGroup | None = None
        if unit.strategy.splits_shards and unit.mesh.size(0) > 1:
            self.group = unit.mesh.get_group(0)
            rows, row = unit.mesh.size(0), unit.mesh.get_local_rank(0)
        self.row = row
        self.layout = Layout(parameters, rows)
        first = local_of(parameters[0][1])
        policy = unit.mp_policy
        self.gathered_as = policy.param_dtype or first.dtype
        reduced_as = policy.reduce_dtype or self.gathered_as
        self.dtype = torch.promote_types(first.dtype, torch.float32)
        self.reduction = Reduction(
            unit.name, self.layout, self.group, row, (reduced_as, self.dtype), unit.strategy.splits_every_sum
        )
        self.values = torch.zeros(self.layout.row_elements, dtype=self.dtype, device=first.device)
        self.masters: list[nn.Parameter] = []
        for piece in self.layout.pieces:
            begin, end = piece.range_of(row)
            view = self.values[piece.offset : piece.offset + end - begin]
            self.masters.append(nn.Parameter(view))
        self.take_parameters(range(len(self.masters)))

    def _shard_of(self, index: int) -> torch.Tensor:
        """Of the parameter's shard, what the master is of."""
        piece = self.layout.pieces[index]
        begin, end = piece.range_of(self.row)
        return local_of(piece.parameter).flatten()[begin:end]

    @torch.no_grad()
    def take_parameters(self, indices: Iterable[int]) -> None:
        """The masters become what the shards are.

        Args:
            indices: Of parameters in the layout.
        """
        for index in indices:
            self.masters[index].copy_(self._shard_of(index))

    @torch.no_grad()
    def take_what_was_written(self) -> None:
        """The masters take those elements of the shards that are no longer what they were sent as.

        Compared by value: a tensor's version does not see `.data`, and weights that a program
        swapped out and in again keep their masters. Nothing waits for a GPU.
        """
        shards = [self._shard_of(index) for index in range(len(self.masters))]
        kind = shards[0].dtype
        if self.gathered_as == kind == self.dtype:  # the gather rounded nothing
            torch._foreach_copy_([*self.masters], shards)
            return
        row = torch.zeros_like(self.values, dtype=kind)
        for piece, shard in zip(self.layout.pieces, shards, strict=True):
            row[piece.offset : piece.offset + shard.numel()] = shard
        same = self.values.to(self.gathered_as).to(kind) == row
        self.values.copy_(torch.where(same, self.values, row))

    def follow_model(self) -> None:
        """From now on takes gradients as backward passes complete them, and parameters that load_state_dict writes."""
        index_of = {id(piece.parameter): index for index, piece in enumerate(self.layout.pieces)}
        for module in (each for of in self.unit.modules for each in of.modules()):
            own = [index_of[id(p)] for p in module.parameters(recurse=False) if id(p) in index_of]
            if own:  # it may be loaded without the rest of its unit
                register: Any = module.register_load_state_dict_post_hook
                register(lambda *_, own=own: self.take_parameters(own))
        for index, piece in enumerate(self.layout.pieces):
            register = piece.parameter.register_post_accumulate_grad_hook
            register(self._hook(index))

    def _hook(self, index: int) -> Any:
        masters = weakref.ref(self)  # Python never frees a cycle that leads through a hook of a tensor

        def take(_: torch.Tensor) -> None:
            if (alive := masters()) is not None:
                alive._take_gradient(index)

        return take

    def _take_gradient(self, index: int) -> None:
        backward = self.unit.backward
        assert backward is not None
        backward.arrives()
        # What FSDP2 has divided by is its group's size, or all that the program wants it divided by.
        whole = gradient_divide_factor(self.unit.module) is not None
        self.reduction.add(index, 1.0 if whole else 1.0 / self.layout.rows)
        if self.reduction.complete:
            backward.completed()

    def set_gradients(self) -> None:
        """Gives each master its gradient, after the reduction has ended."""
        for index, master in enumerate(self.masters):
            master.grad = self.reduction.gradient_of(index)

    def start_gather(self) -> tuple[Any, torch.Tensor]:
        """Sends what the optimizer has made of this rank's row to those who hold the same shards.

        Returns:
            The work (None: this rank has all rows), and where the rows will be, one after the
            other.
        """
        row = self.values.to(self.gathered_as)
        if self.group is None:
            return None, row
        rows = torch.empty(self.layout.rows * row.numel(), dtype=row.dtype, device=row.device)
        return all_gather(rows, row, self.group), rows

    def finish_gather(self, work: Any, gathered: torch.Tensor) -> None:
        """Waits for the rows, and writes them into the shards.

        Args:
            work: Of start_gather().
            gathered: Of start_gather().
        """
        if work is not None:
            work.wait()
        rows = gathered.view(self.layout.rows, -1)
        for piece in self.layout.pieces:
            shard = local_of(piece.parameter).view(-1)
            for part, elements in self.layout.parts(piece, rows):
                shard[elements].copy_(part.reshape(-1))
