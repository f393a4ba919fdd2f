"""Loss scaling for fp16 in which all ranks agree on steps to leave out."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from paro.torch.optimizer import Optimizer


class GradScaler(torch.amp.GradScaler):
    """torch.amp.GradScaler for a paro.torch.Optimizer: an overflow on one rank counts on all.

    A rank sees its own part of the gradients only. Ranks that left out a step alone would drift
    apart.
    """

    has_ranks_agree = True

    @torch.no_grad()
    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        """Divides the gradients by the scale, and looks for overflows on all ranks. Collective.

        Args:
            optimizer: A paro.torch.Optimizer, after the last micro-batch's backward pass.

        Raises:
            TypeError: It is another optimizer.
            RuntimeError: It was unscaled since the last update(), or no micro-batch was the last.
        """
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
        """Makes the optimizer's step, or leaves it out on all ranks after an overflow on one. Collective.

        Args:
            optimizer: A paro.torch.Optimizer.
            *args: As for the optimizer's step.
            **kwargs: As for the optimizer's step.

        Returns:
            What the optimizer's step returned: None, also where it was left out.
        """
        result = super().step(optimizer, *args, **kwargs)
        if isinstance(optimizer, Optimizer):
            optimizer.use_up_gradients()  # also those of a step that was left out
        return result
