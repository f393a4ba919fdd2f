"""torch's Work over horing's requests.

A work is ended by whoever comes first: wait() in the caller's thread, or, once a future was asked
for, a thread of the group that waits for the works of one kind in their order."""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from horing.communicator import Request
from horing.errors import HoringError
from horing.errors import TimeoutError as HoringTimeout
from horing.torch.versions import holds_works

# torch 2.6 holds a work of Python without its Python part: what C++ still waits for stays here.
_waited_for: set[Work] | None = None if holds_works(torch.__version__) else set()


def distributed_error(error: BaseException, what: str) -> dist.DistBackendError:
    """torch's error with the library's text. Programs look for the word timeout in it."""
    text = str(error)
    if isinstance(error, HoringTimeout):
        text = "the timeout has passed: " + text.removeprefix("timeout: ")
    return dist.DistBackendError(f"horing: {what}: {text}")


@dataclasses.dataclass
class Traffic:
    """Payload that one rank's collectives of a group moved, as they ended."""

    intra_sent_bytes: int = 0
    intra_received_bytes: int = 0
    inter_sent_bytes: int = 0
    inter_received_bytes: int = 0

    def add(self, requests: Sequence[Request]) -> None:
        for request in requests:
            report = request.report
            if report is not None:
                self.intra_sent_bytes += report.intra_sent_bytes
                self.intra_received_bytes += report.intra_received_bytes
                self.inter_sent_bytes += report.inter_sent_bytes
                self.inter_received_bytes += report.inter_received_bytes


class Work(dist.Work):
    """One operation, or several that end together."""

    def __init__(
        self,
        group: object,
        what: str,
        requests: Sequence[Request],
        result: Sequence[torch.Tensor],
        finish: Sequence[Callable[[], None]] = (),
        traffic: Traffic | None = None,
        completer: Completer | OwnThread | None = None,
    ):
        super().__init__()
        self._group = group
        self._what = what
        self._requests = requests
        self._result = result
        self._finish = finish
        self._traffic = traffic
        self._completer = completer
        self._lock = threading.Lock()
        self._future: torch.futures.Future[Any] | None = None
        self._ended = False
        self._error: Exception | None = None
        if _waited_for is not None:
            _waited_for.add(self)

    # --- what torch calls

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        seconds = timeout.total_seconds() if timeout else 0.0
        if not self._end(seconds if seconds > 0 else None):
            raise dist.DistBackendError(
                f"horing: {self._what} of {self._group!r} is not complete after {seconds:g} s; it "
                "goes on"
            )
        self._let_go()
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        if self._ended:
            return True
        if not self._lock.acquire(blocking=False):
            return False  # another thread waits for it
        try:
            done = all(request.test() for request in self._requests)
        finally:
            self._lock.release()
        return done and self._end(None)

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self) -> Exception | None:
        return self._error

    def result(self) -> list[torch.Tensor]:
        return list(self._result)

    def source_rank(self) -> int:
        return self._requests[0].source

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future[Any]:
        future = self._future
        if future is None:
            future = self._future = torch.futures.Future()
            if self._completer is None or self._ended:
                self._end(None)
                self._settle(future)
            else:
                self._completer.add(self)
        return future

    getFuture = get_future

    # --- for the completer

    def complete(self) -> None:
        self._end(None)
        if self._future is not None:
            self._settle(self._future)
        self._let_go()

    def _let_go(self) -> None:
        if _waited_for is not None:
            _waited_for.discard(self)

    def _settle(self, future: torch.futures.Future[Any]) -> None:
        with contextlib.suppress(RuntimeError):  # it was settled already
            if self._error is not None:
                future.set_exception(self._error)
            else:
                future.set_result(list(self._result))

    def _end(self, timeout: float | None) -> bool:
        """Waits until it has ended. False: not within `timeout` seconds."""
        if self._ended:
            return True
        if not self._lock.acquire(timeout=-1 if timeout is None else timeout):
            return False
        try:
            return self._ended or self._end_locked(timeout)
        finally:
            self._lock.release()

    def _end_locked(self, timeout: float | None) -> bool:
        try:
            for request in self._requests:
                if not request.wait(timeout):
                    return False
            if self._traffic is not None:
                self._traffic.add(self._requests)
            for step in self._finish:
                step()
        except HoringError as error:
            self._error = distributed_error(error, f"{self._what} of {self._group!r}")
            self._error.__cause__ = error
        self._ended = True
        self._finish = ()
        return True


class Completer:
    """A thread that ends the works whose futures were asked for, in the order of asking. Works of
    one completer end in that order anyway: they are operations of one channel."""

    def __init__(self, name: str):
        self._name = name
        self._works: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def add(self, work: Work) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        self._works.put(work)

    def close(self) -> None:
        """After the works: waits for the thread to have ended them."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            self._works.put(None)
            thread.join()

    def _run(self) -> None:
        while (work := self._works.get()) is not None:
            work.complete()


class OwnThread:
    """For works that end in any order, as messages do: a thread for each whose future was asked
    for."""

    def add(self, work: Work) -> None:
        threading.Thread(target=work.complete, name="horing message", daemon=True).start()
