"""Operations under way, and how their waits end early."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from horing import _library
from horing._library import CallOptions, OpReport, library
from horing.errors import HoringError, InvalidArgumentError
from horing.program_exit import start_thread
from horing.types import Algorithm

if TYPE_CHECKING:
    from horing.lifetime import Lifetime

# One sleep inside C. After each, Python sees whether Ctrl-C was pressed.
SLICE_MS = 100


@functools.lru_cache(maxsize=256)
def call_options(
    *,
    algorithm: Algorithm = Algorithm.AUTO,
    timeout: float | None = None,
    fp32_sums: bool = False,
    scale: float = 1.0,
    foreground: bool = False,
    stream: int = 0,
    label: int = 0,
) -> CallOptions:
    """What any operation takes beside its data (ho_call_options). `timeout` is in seconds; None:
    the communicator's. `stream` is a CUDA stream's address, for device memory; 0: the default stream.
    `label` says what a collective is for, and is compared between ranks. Nobody writes to it: calls share it."""
    return CallOptions(
        ctypes.sizeof(CallOptions),
        algorithm,
        milliseconds(timeout),
        int(fp32_sums),
        scale,
        int(foreground),
        stream,
        label,
    )


def milliseconds(seconds: float | None) -> int:
    """0, the C interface's default, for None; at least 1 otherwise."""
    if seconds is None:
        return 0
    if not 0 <= seconds < 2**40:  # also what is no number
        raise InvalidArgumentError(f"a timeout of {seconds} s: takes 0 or more seconds")
    return max(1, round(seconds * 1000))


def interruptible(call: Callable[[], int | None]) -> int | None:
    """What `call` returns: the handle of a communicator. It may wait for other ranks inside C, so it
    runs in a thread of its own: Ctrl-C ends the wait of the main thread, and the call goes on until
    its deadline. What it makes then is destroyed."""
    if threading.current_thread() is not threading.main_thread():
        return call()
    made: list[int | None] = []
    errors: list[BaseException] = []
    left_alone = threading.Event()

    def run() -> None:
        try:
            made.append(call())
            if left_alone.is_set():
                library().ho_comm_destroy(made[0])
        except BaseException as error:  # noqa: BLE001  (raised again below)
            errors.append(error)

    thread = start_thread(run, "horing call")
    if thread is None:
        return call()
    try:
        while thread.is_alive():
            thread.join(SLICE_MS / 1000)
    except BaseException:
        left_alone.set()
        raise
    if errors:
        raise errors[0]
    return made[0]


def run_for(seconds: float, call: Callable[[], None]) -> None:
    """Runs `call` in a thread of its own, and waits for it so long at most. When the program exits
    nothing is left that it could wait for."""
    thread = start_thread(call, "horing close")
    if thread is None:
        call()
    else:
        thread.join(seconds)


class Pending:
    """An operation that has not ended, and what it needs until then, whoever still knows of it."""

    __slots__ = ("_lock", "_open", "error", "handle", "kept", "what")

    def __init__(self, handle: int | None, what: str, kept: tuple[Any, ...], open_ones: set[Pending]):
        self.handle = handle  # None: it has ended
        self.what = what
        self.kept = kept
        self.error: HoringError | None = None
        self._lock = threading.Lock()  # around what looks at the handle, which its end frees
        self._open = open_ones  # it is one of them until it has ended
        open_ones.add(self)

    def test(self) -> bool:
        """Whether it has ended, without waiting."""
        with self._lock:
            if self.handle is None:
                return True
            done = ctypes.c_int32()
            library().ho_request_test(self.handle, ctypes.byref(done))
            return bool(done.value)

    def join(self, stream: int, slice_ms: int) -> bool:
        with self._lock:
            if self.handle is None:
                return True
            status = library().ho_request_join(self.handle, stream, slice_ms)
            if status not in (0, _library.IN_PROGRESS):
                _library.raise_status(status)
            return bool(status == 0)

    def wait(self, slice_ms: int) -> bool:
        """Whether it has ended. Then its error is known."""
        with self._lock:
            if self.handle is None:
                return True
            status = library().ho_request_wait(self.handle, slice_ms)
            if status == _library.IN_PROGRESS:
                return False
            self.handle = None
            self.kept = ()
            self._open.discard(self)
            if status != 0:
                self.error = _library.error_of(status)
            return True


class Request:
    """An operation under way. Its buffers must stay as they are until it has ended.

    Any thread may wait. What it needs is kept alive until then, even if it is dropped.
    """

    def __init__(self, pending: Pending, owner: Lifetime, source: ctypes.c_int32 | None = None):
        self._pending = pending
        self._owner = owner
        self._source = source
        self.report: OpReport | None = None
        self.device: int | None = None  # whose memory it has

    def __del__(self) -> None:
        if self._pending.handle is not None:
            self._owner._take_dropped(self._pending)

    @property
    def source(self) -> int:
        """Whose message a receive got, once it has ended."""
        if self._source is None or self._pending.handle is not None:
            raise InvalidArgumentError("source: only of a receive that has ended")
        return self._source.value

    def test(self) -> bool:
        """Whether it has ended; then wait() returns at once."""
        return self._pending.test()

    def join(self, stream: int = 0, timeout: float | None = None) -> bool:
        """Of a call with device memory: what the CUDA stream is given from now on comes after it. May
        wait for data from other ranks, and until the call's stream has got to it, at most `timeout`
        seconds. False: not yet, and the stream is as it was. Without device memory as wait()."""
        return self._in_slices(functools.partial(self._pending.join, stream), timeout)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it ends, at most `timeout` seconds. False: it goes on. Raises its error."""
        return self._in_slices(self._pending.wait, timeout)

    def _in_slices(self, wait_slice: Callable[[int], bool], timeout: float | None) -> bool:
        """Whether `wait_slice` was through within `timeout` seconds. Raises the error that ended the
        operation."""
        left = None if timeout is None else milliseconds(timeout)
        while not wait_slice(SLICE_MS if left is None else max(min(SLICE_MS, left), 1)):
            if left is not None:
                left -= SLICE_MS
                if left <= 0:
                    return False
            self._owner._follow_other()
        if self._pending.error is not None:
            raise self._pending.error
        return True
