"""The life of a communicator: what of it is open, and the ways in which it ends."""

from __future__ import annotations

import collections
import contextlib
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TypeVar

from horing._library import library
from horing.errors import HoringError, InvalidArgumentError
from horing.program_exit import GRACE_S, ends_with_program, has_begun
from horing.requests import SLICE_MS, Pending, run_for

Self = TypeVar("Self", bound="Lifetime")


class Lifetime:
    """Of a communicator, which adds the calls."""

    def _start(self, device: int) -> None:
        self._handle: int | None = None
        self._device = device
        self._other: Lifetime | None = None
        self._closed = False  # takes no calls any more
        self._destroying = threading.Lock()  # around what destroys it or may meet that
        self._open: set[Pending] = set()
        self._dropped: collections.deque[Pending] = collections.deque()  # of the open ones

    def _begin(self, handle: int | None) -> None:
        self._handle = handle
        ends_with_program(self)

    def _take_dropped(self, dropped: Pending) -> None:
        """From a destructor, so from any thread at any time: takes no lock."""
        self._dropped.append(dropped)

    def _free_ended(self, count: int) -> None:
        if not self._dropped:
            return
        for _ in range(min(count, len(self._dropped))):
            try:
                dropped = self._dropped.popleft()
            except IndexError:  # another thread was first
                return
            done = False
            with contextlib.suppress(HoringError):
                done = dropped.test()
            if done:
                dropped.wait(1)
            else:
                self._dropped.append(dropped)

    @property
    def handle(self) -> int:
        """The ho_comm, for calls of other libraries."""
        if self._handle is None or self._closed:
            raise InvalidArgumentError("the communicator is closed")
        return self._handle

    def abort(self, reason: str = "") -> None:
        """Ends every wait of this communicator and its splits, on every rank. Any thread."""
        with self._destroying:
            if self._handle is None:
                raise InvalidArgumentError("the communicator is closed")
            library().ho_comm_abort(self._handle, reason.encode())

    def close(self) -> None:
        """Destroys it. Not collective; waits for this rank's own requests, until their deadlines."""
        self._closed = True
        self._wait_for_open(None)
        with self._destroying:
            handle, self._handle = self._handle, None
            if handle is not None:
                library().ho_comm_destroy(handle)

    def _wait_for_open(self, until: float | None) -> list[str]:
        """While a request is left, also a dropped one, the communicator stays. Names of those that
        have not ended at that time (of time.monotonic()). Errors are for whoever waits for them."""
        left = []
        for each in list(self._open):
            slice_ms = SLICE_MS
            while not each.wait(slice_ms):
                if until is None:
                    continue
                slice_ms = min(SLICE_MS, int(1000 * (until - time.monotonic())))
                if slice_ms <= 0:
                    left.append(each.what)
                    break
        return left

    def end_with_program(self, until: float) -> None:
        """As close(), but what has not ended by `until` is aborted, and the others learn why."""
        self._closed = True
        left = self._wait_for_open(until)
        if left:
            with contextlib.suppress(HoringError):
                self.abort(f"its program ended with {_counted(left)} not complete")
        if not self._wait_for_open(time.monotonic() + GRACE_S):
            self.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and self._handle is not None:
            # The others learn the reason instead of waiting for this rank.
            with contextlib.suppress(Exception):
                self.abort(f"{kind.__name__ if kind else 'error'}: {error}")
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            if has_begun():
                return  # it was ended, or made since then
            # Nobody is left who could wait for what has not ended.
            self._free_ended(len(self._dropped))
            if self._open:
                run_for(0.0, self.close)
            else:
                self.close()

    def end_with(self, other: Lifetime) -> None:
        """From now on a failure of `other` ends waits for this one's operations, too."""
        self._other = other

    def _follow_other(self) -> None:
        """Between two looks at an operation."""
        if self._other is None or self._other._closed or self._closed:
            return
        try:
            self._other.status()
        except HoringError as error:
            self.abort(str(error))

    def status(self) -> None:
        """Raises why the communicator has failed, if it has. Any thread; does not wait."""
        library().ho_comm_status(self.handle)


def _counted(names: Sequence[str]) -> str:
    """ "all_reduce, 3 recv" of four names."""
    counts = collections.Counter(names).items()
    return ", ".join(name if count == 1 else f"{count} {name}" for name, count in counts)
