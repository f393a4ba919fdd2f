"""torch's Work over horing's requests.

An operation is ended by whoever comes first: wait() in the caller's thread, or, once a future was
asked for or nobody is left who could wait, a thread of the group that waits for the operations of
one kind in their order.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import queue
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from horing._library import OpReport
from horing.errors import HoringError
from horing.errors import TimeoutError as HoringTimeout
from horing.program_exit import has_begun, start_thread
from horing.requests import Request
from horing.torch.causes import Group, first_cause
from horing.torch.versions import holds_works

# torch 2.6 holds a work of Python without its Python part: what C++ still waits for stays here.
_waited_for: set[Work] | None = None if holds_works(torch.__version__) else set()


def distributed_error(
    error: BaseException, what: str, group: Group | None
) -> dist.DistBackendError:
    """An error of torch with the library's text. Programs look for the word timeout in it.

    Args:
        error: The library's error.
        what: The call.
        group: Whose call it was, for its name and global ranks; None: it is not made yet.

    Returns:
        An error to raise from `error`.
    """
    text = str(error)
    if isinstance(error, HoringTimeout):
        text = "the timeout has passed: " + text.removeprefix("timeout: ")
    if group is not None:
        text = group.with_global_ranks(text)
        what = f"{what} of {group.text()}"
        first = first_cause(group, error)
        if first is not None:
            text = f"first {first}; then here: {text}"
    return dist.DistBackendError(f"horing: {what}: {text}")


@dataclasses.dataclass
class Traffic:
    """Payload that one rank's collectives of a group moved, as they ended.

    Attributes:
        intra_sent_bytes: Sent inside the node.
        intra_received_bytes: Received inside the node.
        inter_sent_bytes: Sent to other nodes.
        inter_received_bytes: Received from other nodes.
    """

    intra_sent_bytes: int = 0
    intra_received_bytes: int = 0
    inter_sent_bytes: int = 0
    inter_received_bytes: int = 0
    _going_on: collections.deque[Request] = dataclasses.field(
        default_factory=collections.deque, repr=False, compare=False
    )

    def add(self, requests: Sequence[Request]) -> None:
        """Counts operations that have ended, or that a stream was made to wait for.

        Args:
            requests: Those of a device are counted when they are seen to have ended.
        """
        for request in requests:
            if request.device is None:
                self._add(request.report)
            else:
                self._going_on.append(request)
        if self._going_on:
            self.add_ended()

    def add_ended(self) -> None:
        """Counts those that have ended by now of operations on a device."""
        for _ in range(len(self._going_on)):
            try:
                request = self._going_on.popleft()
            except IndexError:  # another thread was first
                return
            if not request.test():
                self._going_on.append(request)
                continue
            with contextlib.suppress(HoringError):  # which every later call raises
                request.wait()
                self._add(request.report)

    def _add(self, report: OpReport | None) -> None:
        if report is not None:
            self.intra_sent_bytes += report.intra_sent_bytes
            self.intra_received_bytes += report.intra_received_bytes
            self.inter_sent_bytes += report.inter_sent_bytes
            self.inter_received_bytes += report.inter_received_bytes


class Operation:
    """What a work waits for: one operation of the library, or several that end together.

    Ended by one thread at a time.

    Args:
        group: Whose call it is.
        what: The call, for errors.
        requests: The library's operations.
        result: The caller's tensors.
        finish: What brings results back, called in this order by the thread that ends it.
        traffic: Where it is counted; None: nowhere.
    """

    def __init__(
        self,
        group: Group,
        what: str,
        requests: Sequence[Request],
        result: Sequence[torch.Tensor],
        finish: Sequence[Callable[[], object]],
        traffic: Traffic | None,
    ):
        self.group = group
        self.what = what
        self.requests = requests
        self.result = result
        self.finish = finish
        self.traffic = traffic
        self.lock = threading.Lock()
        self.event: torch.futures.Future[None] | None = None  # that it has ended, once asked for
        self.future: torch.futures.Future[Any] | None = None
        self.ended = False
        self.error: Exception | None = None

    def end(self, timeout: float | None) -> bool:
        """Waits until it has ended. Its error is kept, not raised.

        Args:
            timeout: The longest wait, in seconds; None: until its deadline.

        Returns:
            False: not in that time.
        """
        if self.ended:
            return True
        if not self.lock.acquire(timeout=-1 if timeout is None else timeout):
            return False
        try:
            return self.ended or self._end_locked(timeout)
        finally:
            self.lock.release()

    def _end_locked(self, timeout: float | None) -> bool:
        try:
            for request in self.requests:
                if not self._wait(request, timeout):
                    return False
            if self.traffic is not None:
                self.traffic.add(self.requests)
            self._bring_back()
        except Exception as error:
            self.fail(error)
        self.ended = True
        self.finish = ()
        return True

    def _wait(self, request: Request, timeout: float | None) -> bool:
        return request.wait(timeout)

    def _bring_back(self) -> None:
        for step in self.finish:
            step()

    def fail(self, error: Exception) -> None:
        """Keeps an error as torch's. The first one counts.

        Args:
            error: What ended the operation.
        """
        if self.error is None:
            self.error = distributed_error(error, self.what, self.group)
            self.error.__cause__ = error
        self.ended = True

    def is_completed(self) -> bool:
        """Looks whether it has ended, without waiting for other ranks.

        Returns:
            Whether it has, well or not.
        """
        return self.ended or (self._seems_done() and self.end(None))

    def _seems_done(self) -> bool:
        """Whether all requests have ended, without waiting."""
        if not self.lock.acquire(blocking=False):
            return False  # another thread waits for it
        try:
            return all(request.test() for request in self.requests)
        finally:
            self.lock.release()

    def aside(self) -> contextlib.AbstractContextManager[object]:
        """Where a thread ends it that is not the caller's.

        Returns:
            A context around end().
        """
        return contextlib.nullcontext()

    def end_aside(self) -> None:
        """Ends it in a thread that is not the caller's. Its errors are the operation's."""
        try:
            with self.aside():
                self.end(None)
        except Exception as error:
            self.fail(error)

    def complete(self) -> None:
        """As end_aside(), and runs what hangs on the future."""
        self.end_aside()
        if self.event is None:
            return
        try:
            with self.aside():
                self.end(None)
                self.event.set_result(self._event_value())
        except Exception as error:
            if not self.event.done():
                self.fail(error)
                with contextlib.suppress(RuntimeError):  # another thread has set it
                    self.event.set_result(None)

    def _event_value(self) -> Any:
        return None

    def _make_event(self) -> torch.futures.Future[Any]:
        return torch.futures.Future()

    def make_future(self) -> torch.futures.Future[Any]:
        """Makes the future of its result.

        Python's set_exception would make the exception the future's value for C++, as in DDP, which
        then reads it as tensors: what a callback raises is an error for both.

        Returns:
            The future; complete() sets it.
        """
        self.event = self._make_event()
        self.future = self.event.then(lambda _: self._result_or_error())
        return self.future

    def _result_or_error(self) -> list[torch.Tensor]:
        if self.error is not None:
            raise self.error
        return list(self.result)


@functools.cache
def _side_stream(device: int) -> torch.cuda.Stream:
    """Of the threads that complete operations: torch has few streams, and gives them out again."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


class DeviceOperation(Operation):
    """An operation with memory of a device. It ends for streams.

    What a stream that is current in end() is given afterwards comes after the operation. The host
    waits for what the network brings, not for the device.

    Args:
        device: The CUDA device's number.
        *arguments: As for `Operation`.
    """

    def __init__(self, device: int, *arguments: Any):
        super().__init__(*arguments)
        self.device = device
        self._copied: torch.cuda.Event | None = None  # where results were copied back
        self._ended_on: torch.cuda.Stream | None = None

    def end(self, timeout: float | None) -> bool:
        """Has the current stream wait for it.

        Args:
            timeout: The longest wait of the host, in seconds; None: until its deadline.

        Returns:
            False: not in that time.
        """
        if not super().end(timeout):
            return False
        if self.error is None and torch.cuda.current_stream(self.device) != self._ended_on:
            try:
                self._make_current_stream_wait()
            except HoringError as error:
                self.fail(error)
        return True

    def _end_locked(self, timeout: float | None) -> bool:
        ended = super()._end_locked(timeout)
        if ended:
            self._ended_on = torch.cuda.current_stream(self.device)
        return ended

    def _make_current_stream_wait(self) -> None:
        for request in self.requests:
            self._wait(request, None)
        if self._copied is not None:
            torch.cuda.current_stream(self.device).wait_event(self._copied)

    def _wait(self, request: Request, timeout: float | None) -> bool:
        return request.join(torch.cuda.current_stream(self.device).cuda_stream, timeout)

    def _bring_back(self) -> None:
        if self.finish:
            super()._bring_back()
            self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._copied.record(torch.cuda.current_stream(self.device))

    def is_completed(self) -> bool:
        """Looks whether it has ended, also on the device.

        Returns:
            Whether it has, well or not.
        """
        if self.error is not None:
            return True
        if not self._seems_done() or not (self.ended or self.end(None)):
            return False
        return self._copied is None or bool(self._copied.query())  # type: ignore[no-untyped-call]

    def aside(self) -> contextlib.AbstractContextManager[object]:
        """A stream of the completing threads.

        Returns:
            A context in which that stream is current.
        """
        return torch.cuda.stream(_side_stream(self.device))

    def _event_value(self) -> Any:
        """Tensors: of their devices a future notes how far the current stream is."""
        return list(self.result)

    def _make_event(self) -> torch.futures.Future[Any]:
        return torch.futures.Future(devices=[torch.device("cuda", self.device)])


class Work(dist.Work):
    """torch's handle of an operation. One that is dropped without wait() ends all the same.

    Args:
        operation: What it waits for.
        completer: Who ends it when nobody waits.
    """

    def __init__(self, operation: Operation, completer: Completer | OwnThread):
        super().__init__()
        self._operation = operation
        self._completer = completer
        if _waited_for is not None:
            _waited_for.add(self)

    def __del__(self) -> None:
        operation = self._operation
        if not operation.ended and operation.future is None and not has_begun():
            self._completer.add_dropped(operation)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Waits until the operation has ended. For a device: has the current stream wait for it.

        Args:
            timeout: The longest wait; 0: until the operation's own deadline.

        Returns:
            True.

        Raises:
            torch.distributed.DistBackendError: It has failed, or has not ended in that time; then
                it goes on.
        """
        operation = self._operation
        seconds = timeout.total_seconds() if timeout else 0.0
        if not operation.end(seconds if seconds > 0 else None):
            raise dist.DistBackendError(
                f"horing: {operation.what} of {operation.group.text()} is not complete after {seconds:g} "
                "s; it goes on"
            )
        if _waited_for is not None:
            _waited_for.discard(self)
        if operation.error is not None:
            raise operation.error
        return True

    def synchronize(self) -> None:
        """As wait()."""
        self.wait()

    def is_completed(self) -> bool:
        """Looks whether it has ended, without waiting for other ranks.

        Returns:
            Whether it has, well or not.
        """
        return self._operation.is_completed()

    def is_success(self) -> bool:
        """Looks whether it has ended well.

        Returns:
            False also while it goes on.
        """
        return self.is_completed() and self._operation.error is None

    def exception(self) -> Exception | None:
        """Why it failed.

        Returns:
            None: it goes on, or has ended well.
        """
        return self._operation.error

    def result(self) -> list[torch.Tensor]:
        """The caller's tensors.

        Returns:
            They have the result once wait() has returned.
        """
        return list(self._operation.result)

    def source_rank(self) -> int:
        """The sender of a received message, in the group's numbers.

        Returns:
            A rank.

        Raises:
            InvalidArgumentError: It has not ended, or is no receive.
        """
        return self._operation.requests[0].source

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future[Any]:
        """A future of the result. Its callbacks run in a thread of the group.

        Returns:
            The same one for each call.
        """
        operation = self._operation
        future = operation.future
        if future is None:
            future = operation.make_future()
            _raise_in_backward(operation, future)
            if operation.ended:
                operation.complete()
            else:
                self._completer.add(operation)
            if _waited_for is not None:
                future.add_done_callback(lambda _: _let_go(self))
        return future

    getFuture = get_future


def _raise_in_backward(operation: Operation, future: torch.futures.Future[Any]) -> None:
    """Raises an operation's error at the end of the backward pass that it belongs to.

    DDP reads a future in C++, where an error of Python is a RuntimeError. Inside a backward pass it
    is raised from a callback at its end, which comes before DDP's own and keeps the error as it is.
    """
    if torch._C._current_graph_task_id() < 0:
        return

    def check() -> None:
        with contextlib.suppress(RuntimeError):
            future.wait()
        if operation.error is not None:
            raise operation.error

    torch.autograd.Variable._execution_engine.queue_callback(check)


def _let_go(work: Work) -> None:
    if _waited_for is not None:
        _waited_for.discard(work)


class Completer:
    """Ends the operations whose futures were asked for, in the order of asking.

    Operations of one completer end in that order anyway, for they are of one channel. One thread at
    a time waits for the next one. Before it runs what hangs on a future it leaves that to another
    thread: a callback may itself wait for a later operation.

    Args:
        name: Of its threads.
    """

    def __init__(self, name: str):
        self._name = name
        self._operations: queue.SimpleQueue[Operation | None] = queue.SimpleQueue()
        self._turn = threading.Lock()
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._waiting = 0  # threads that take a turn, or wait for theirs

    def add(self, operation: Operation) -> None:
        """Has an operation ended by a thread. When the program exits: by this one.

        Args:
            operation: It is kept alive until it has ended.
        """
        if has_begun():  # then it ends soon, and no thread starts
            operation.complete()
            return
        self._operations.put(operation)
        self._have_one_waiting()

    add_dropped = add

    def _have_one_waiting(self) -> None:
        with self._lock:
            if self._waiting == 0:
                thread = start_thread(self._run, self._name)
                if thread is not None:
                    self._threads.add(thread)
                    self._waiting += 1

    def close(self, timeout: float | None = None) -> None:
        """Waits until the threads have ended the operations.

        Args:
            timeout: The longest wait for each thread, in seconds; None: no limit.
        """
        self._operations.put(None)
        with self._lock:
            threads = self._threads - {threading.current_thread()}
        for thread in threads:
            thread.join(timeout)

    def _run(self) -> None:
        while True:
            with self._turn:
                operation = self._operations.get()
                if operation is None:
                    self._operations.put(None)  # for the next thread
                    break
                operation.end_aside()
            with self._lock:
                self._waiting -= 1
            if operation.event is not None:
                self._have_one_waiting()
            operation.complete()
            with self._lock:
                if self._waiting > 1:  # one at its turn, and one for when that runs callbacks
                    self._threads.discard(threading.current_thread())
                    return
                self._waiting += 1
        with self._lock:
            self._waiting -= 1
            self._threads.discard(threading.current_thread())


class OwnThread:
    """Ends works that end in any order, as messages do."""

    def add(self, operation: Operation) -> None:
        """Has an operation ended by a thread of its own. When the program exits: by this one.

        Args:
            operation: Whose future was asked for.
        """
        if start_thread(operation.complete, "horing message") is None:
            operation.complete()

    def add_dropped(self, operation: Operation) -> None:
        """Has an operation ended whose work was dropped. A message without a copy at its end ends by itself.

        Args:
            operation: Nobody else will wait for it.
        """
        if operation.finish:
            self.add(operation)
