"""torch's own functions that do not work where masters are apart from the parameters.

They look the parameters up in the optimizer and their gradients in `.grad`, find neither, and fail
with a key or an assertion that says nothing. What they call first says instead which function of
this package does it.
"""

from __future__ import annotations

import sys

import torch


def refuse_state_dict_functions(what: str) -> None:
    """Called by the optimizer's state_dict and load_state_dict.

    Args:
        what: Which of them.

    Raises:
        TypeError: A function of torch.distributed.checkpoint.state_dict is among the callers.
    """
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == "torch.distributed.checkpoint.state_dict":
            raise TypeError(
                f"paro.torch.Optimizer.{what}: called by torch.distributed.checkpoint.state_dict, which does not find "
                "the optimizer's masters; use paro.torch.get_state_dict(model, optimizer) and "
                "paro.torch.set_state_dict(model, optimizer, ...)"
            )
        frame = frame.f_back  # type: ignore[assignment]


def refuse_scaler() -> None:
    """Called where a caller asks an optimizer what it can do, as a scaler does before it steps.

    Raises:
        TypeError: The caller is torch's own scaler.
    """
    scaler = sys._getframe(2).f_locals.get("self")
    if isinstance(scaler, torch.amp.GradScaler) and not hasattr(scaler, "has_ranks_agree"):
        raise TypeError(
            f"paro.torch.Optimizer: {type(scaler).__name__} of {type(scaler).__module__} finds no gradient to unscale; "
            "use paro.torch.GradScaler, which also has all ranks agree on steps to leave out"
        )
