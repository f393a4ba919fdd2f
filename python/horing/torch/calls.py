"""What all calls of a process group share: their options, order and errors, and the work they return."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import torch

from horing.errors import HoringError
from horing.requests import Request
from horing.torch import tensors as memory
from horing.torch.communicators import Communicators, Memory
from horing.torch.work import (
    Completer,
    DeviceOperation,
    Operation,
    OwnThread,
    Traffic,
    Work,
    distributed_error,
)

# Whose operations end in their order.
Channel = Literal["all_gather", "reduce_scatter", "other"]


def torch_errors(method: Callable[..., Any]) -> Callable[..., Any]:
    """Failures of the library become torch's errors, with the call's name.

    Args:
        method: A call of a process group.

    Returns:
        The method, which raises `torch.distributed.DistBackendError` in place of `HoringError`.
    """

    @functools.wraps(method)
    def called(self: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return method(self, *arguments, **named)
        except HoringError as error:
            raise distributed_error(error, method.__name__, self) from error

    return called


class Calls(Communicators):
    """The part of a process group that starts operations, and makes works of them.

    Args:
        *arguments: As for `Communicators`.
    """

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self._coalesced = threading.local()  # .operations: since _start_coalescing()
        self._own_thread = OwnThread()
        self._completers: dict[tuple[Channel, Memory], Completer] = {
            (channel, kind): Completer(f"horing {kind} {channel}")
            for channel in get_args(Channel)
            for kind in get_args(Memory)
        }
        self._traffic = Traffic()

    @property
    def traffic(self) -> Traffic:
        """What this rank's collectives have moved, as far as they have ended."""
        self._traffic.add_ended()
        return self._traffic

    def _call(self, opts: Any, call: Callable[..., Request], *arguments: Any, **named: Any) -> Request:
        timeout = getattr(opts, "timeout", None)
        seconds = -1.0 if timeout is None else timeout.total_seconds()
        if seconds < 0:
            seconds = self._timeout.total_seconds()
        device = memory.device_of(arguments, call.__name__)
        with self._lock:
            self._sequence += 1
            return call(
                self._communicator_of(device),
                *arguments,
                wait=False,
                timeout=seconds,
                foreground=not getattr(opts, "asyncOp", True),  # torch waits for it at once
                label=self.label,
                **named,
            )

    def _work(
        self,
        what: str,
        requests: Sequence[Request],
        result: Sequence[torch.Tensor],
        after: Sequence[Callable[[], object]],
        channel: Channel | None = "other",
        counted: bool = True,
    ) -> Work:
        device = next((each.device for each in requests if each.device is not None), None)
        where: Memory = "host" if device is None else "device"
        completer = self._own_thread if channel is None else self._completers[channel, where]
        traffic = self._traffic if counted else None
        operation = (
            Operation(self, what, requests, result, after, traffic)
            if device is None
            else DeviceOperation(device, self, what, requests, result, after, traffic)
        )
        together = getattr(self._coalesced, "operations", None)
        if together is not None:
            together.append(operation)
        return Work(operation, completer)

    # --- calls that torch's coalescing manager makes together

    def _start_coalescing(self, device: torch.device | None = None) -> None:
        self._coalesced.operations = []

    def _end_coalescing(self, device: torch.device | None = None) -> Work:
        """A work for all that this thread has called since the start. They are under way already."""
        operations: list[Operation] = getattr(self._coalesced, "operations", None) or []
        self._coalesced.operations = None
        requests = [request for each in operations for request in each.requests]
        ends = [functools.partial(each.end, None) for each in operations]
        result = [tensor for each in operations for tensor in each.result]
        return self._work("calls made together", requests, result, ends, None, counted=False)
