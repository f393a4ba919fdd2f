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
from horing.types import Algorithm

if TYPE_CHECKING:
    from horing.communicator import Communicator

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
) -> CallOptions:
    """What any operation takes beside its data (ho_call_options). `timeout` is in seconds; None:
    the communicator's. `stream` is a CUDA stream's address, for device memory; 0: the default stream.
    Nobody writes to it: calls share it."""
    return CallOptions(
        ctypes.sizeof(CallOptions),
        algorithm,
        milliseconds(timeout),
        int(fp32_sums),
        scale,
        int(foreground),
        stream,
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

    thread = threading.Thread(target=run, name="horing call", daemon=True)
    thread.start()
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
    """Runs `call` in a thread of its own, and waits for it so long at most."""
    thread = threading.Thread(target=call, name="horing close", daemon=True)
    thread.start()
    thread.join(seconds)


class Dropped:
    """What a request holds that nobody looks at any more, until its operation has ended."""

    def __init__(self, handle: int, kept: tuple[Any, ...]):
        self.handle = handle
        self.kept = kept


class Request:
    """An operation under way. Its buffers must stay as they are until it has ended.

    Any thread may wait. What it needs is kept alive until then, even if it is dropped.
    """

    _handle: int | None = None

    def __init__(self, handle: int | None, owner: Communicator, kept: tuple[Any, ...]):
        self._handle = handle
        self._owner = owner
        self._kept = kept
        self._lock = threading.Lock()  # around what looks at the handle, which its end frees
        self.report: OpReport | None = None
        self.device: int | None = None  # whose memory it has
        self._error: HoringError | None = None
        self._source: ctypes.c_int32 | None = None
        owner._add_pending(self)

    def __del__(self) -> None:
        if self._handle is not None:
            self._owner._take_dropped(Dropped(self._handle, self._kept))

    @property
    def source(self) -> int:
        """Whose message a receive got, once it has ended."""
        if self._source is None or self._handle is not None:
            raise InvalidArgumentError("source: only of a receive that has ended")
        return self._source.value

    def test(self) -> bool:
        """Whether it has ended; then wait() returns at once."""
        with self._lock:
            if self._handle is None:
                return True
            done = ctypes.c_int32()
            library().ho_request_test(self._handle, ctypes.byref(done))
            return bool(done.value)

    def join(self, stream: int = 0, timeout: float | None = None) -> bool:
        """Of a call with device memory: what the CUDA stream is given from now on comes after it. May
        wait for data from other ranks, and until the call's stream has got to it, at most `timeout`
        seconds. False: not yet, and the stream is as it was. Without device memory as wait()."""
        return self._in_slices(functools.partial(self._join_slice, stream), timeout)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it ends, at most `timeout` seconds. False: it goes on. Raises its error."""
        return self._in_slices(self._wait_slice, timeout)

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
        if self._error is not None:
            raise self._error
        return True

    def _join_slice(self, stream: int, slice_ms: int) -> bool:
        with self._lock:
            if self._handle is None:
                return True
            status = library().ho_request_join(self._handle, stream, slice_ms)
            if status not in (0, _library.IN_PROGRESS):
                _library.raise_status(status)
            return bool(status == 0)

    def _wait_slice(self, slice_ms: int) -> bool:
        """Whether it has ended."""
        with self._lock:
            if self._handle is None:
                return True
            status = library().ho_request_wait(self._handle, slice_ms)
            if status == _library.IN_PROGRESS:
                return False
            self._handle = None
            self._kept = ()
            try:
                if status != 0:
                    _library.raise_status(status)
            except HoringError as error:
                self._error = error
            return True
