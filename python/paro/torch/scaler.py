"""Loss scaling for fp16 in which all ranks agree on steps to leave out."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from paro.torch.optimizer import Optimizer


class GradScaler(torch.amp.GradScaler):
    """torch's, for a paro.torch.Optimizer: a gradient that overflowed on one rank counts on all.

    A rank sees its own part of the gradients only. Ranks that left out a step alone would drift apart.
    """

    has_ranks_agree = True

    @torch.no_grad()
    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError("paro.torch.GradScaler: takes a paro.torch.Optimizer")
        if not self.is_enabled():
            return
        optimizer.finish_gradients("GradScaler.unscale_")
        super().unscale_(optimizer)
        found = self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
        device = next(iter(optimizer.pairs()))[0].device
        local = found.get(device)
        overflow = torch.zeros((), device=device) if local is None else local.clone()
        for group in optimizer.groups():
            dist.all_reduce(overflow, dist.ReduceOp.MAX, group=group)
        found[device] = overflow

    def step(self, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> float | None:
        result = super().step(optimizer, *args, **kwargs)
        if isinstance(optimizer, Optimizer):
            optimizer.use_up_gradients()  # also those of a step that was left out
        return result
