"""The life of a communicator: what of it is open, and the ways in which it ends."""

from __future__ import annotations

import collections
import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TypeVar

from horing._library import library
from horing.errors import HoringError, InvalidArgumentError
from horing.program_exit import GRACE_S, ends_with_program, has_begun
from horing.requests import SLICE_MS, Pending, run_for

Self = TypeVar("Self", bound="Lifetime")


class Lifetime:
    """The part of a communicator that opens, ends and fails; `Communicator` adds the calls."""

    def _start(self, device: int) -> None:
        self._handle: int | None = None
        self._device = device
        self._why_to_end: Callable[[], str | None] | None = None
        self._ends_with: Lifetime | None = None
        self._failure: str | None = None  # as it was when it was closed
        self._closed = False  # takes no calls any more
        self._destroying = threading.Lock()  # around what destroys it or may meet that
        # The same around what does not wait. A destructor may come between, of one that ends with this.
        self._looking = threading.RLock()
        self._open: set[Pending] = set()
        self._dropped: collections.deque[Pending] = collections.deque()  # of the open ones

    def _begin(self, handle: int | None) -> None:
        self._handle = handle
        ends_with_program(self)

    def take_dropped(self, dropped: Pending) -> None:
        """Keeps an operation whose request the program has dropped, until it ends.

        Called by destructors, so by any thread at any time: takes no lock.

        Args:
            dropped: One of the open operations.
        """
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
        """The ho_comm, for calls of other libraries.

        Raises:
            InvalidArgumentError: The communicator is closed.
        """
        if self._handle is None or self._closed:
            raise InvalidArgumentError("the communicator is closed")
        return self._handle

    def abort(self, reason: str = "") -> None:
        """Ends every wait of this communicator and its splits, on every rank. Any thread may call it.

        Returns when this rank's waits have ended: usually after 0.2 s, at most after 6 s.

        Args:
            reason: What the other ranks' errors say.

        Raises:
            InvalidArgumentError: The communicator is closed.
        """
        with self._destroying:
            if self._handle is None:
                raise InvalidArgumentError("the communicator is closed")
            library().ho_comm_abort(self._handle, reason.encode())

    def close(self) -> None:
        """Destroys it. Not collective. A second call does nothing.

        Waits for this rank's own requests, also those that were dropped, until their deadlines.
        What this rank has not completed fails on the others, with an error that names this rank.
        """
        self._close_calls()
        self._wait_for_open(None)
        with self._destroying:
            with self._looking:
                handle, self._handle = self._handle, None
            if handle is not None:
                library().ho_comm_destroy(handle)

    def _close_calls(self) -> None:
        if not self._closed:
            self._follow()  # else the others hear only that this rank has left
            self._note_failure()
            self._closed = True

    def _wait_for_open(self, until: float | None) -> list[str]:
        """Waits for all requests, also dropped ones: while one is left, the communicator stays.

        Names of those that have not ended at that time (of time.monotonic()). Errors are for
        whoever waits for them.
        """
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
        """As close(), but what has not ended by then is aborted, and the others learn why.

        Args:
            until: A time of time.monotonic().
        """
        self._close_calls()
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

    def end_when(self, why: Callable[[], str | None]) -> None:
        """From now on this can end waits for the communicator's operations, on all its ranks.

        Args:
            why: Called between two looks at an operation that is waited for: the reason to abort
                the communicator, or None. Any thread; it must not wait.
        """
        self._why_to_end = why

    def end_with(self, other: Lifetime) -> None:
        """From now on what fails another communicator fails this one, at the latest when it is closed.

        Args:
            other: Of the same ranks. It is kept alive by this.
        """
        self._ends_with = other

    def _note_failure(self) -> str | None:
        try:
            self.status()
        except InvalidArgumentError:  # it is closed
            pass
        except HoringError as error:
            self._failure = str(error)
        return self._failure

    def _follow(self) -> None:
        failure = self._ends_with._note_failure() if self._ends_with is not None else None
        if failure is not None and self._note_failure() is None:
            with contextlib.suppress(InvalidArgumentError):  # another thread has closed it
                self.abort(failure)

    def follow_other(self) -> None:
        """Between two looks at an operation: fails this communicator where end_with() or end_when() has a reason."""
        if self._closed:
            return
        self._follow()
        why = self._why_to_end() if self._why_to_end is not None else None
        if why is not None:
            self.abort(why)

    def status(self) -> None:
        """Raises why the communicator has failed, if it has. Any thread; does not wait.

        Raises:
            InvalidArgumentError: The communicator is closed.
            HoringError: Why it has failed: the error that its next call would raise.
        """
        with self._looking:
            library().ho_comm_status(self.handle)

    def left(self) -> HoringError | None:
        """Who has closed its part of the communicator. Any thread; does not wait.

        Returns:
            The error of a call that needs all ranks, with the first one that has left; None: nobody
            has, as far as is known.
        """
        try:
            with self._looking:
                library().ho_comm_left(self.handle)
        except HoringError as error:
            return error
        return None

    def set_name(self, name: str, number: int) -> None:
        """How errors of communicators of other jobs name this one, in which a rank may wait meanwhile.

        Args:
            name: A few words: "group 'a'".
            number: The same on all its ranks, and no other communicator's; not 0.

        Raises:
            InvalidArgumentError: The name is empty, or the communicator is closed.
        """
        library().ho_comm_set_name(self.handle, name.encode()[:200], number)


def _counted(names: Sequence[str]) -> str:
    """Names with their numbers: "all_reduce, 3 recv" of four."""
    counts = collections.Counter(names).items()
    return ", ".join(name if count == 1 else f"{count} {name}" for name, count in counts)
