"""Operations under way, and how their waits end early."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypedDict

from horing import _library
from horing._library import CallOptions, OpReport, library
from horing.errors import HoringError, InvalidArgumentError
from horing.program_exit import start_thread
from horing.types import Algorithm

# One sleep inside C. After each, Python sees whether Ctrl-C was pressed.
SLICE_MS = 100


class CallSettings(TypedDict, total=False):
    """Options that every operation takes as keyword arguments (ho_call_options).

    Attributes:
        algorithm: How it is carried out; the same on all ranks. AUTO: by size.
        timeout: Deadline of the operation, in seconds; None: the communicator's.
        fp32_sums: Whether sums of 16-bit elements are kept in fp32 until a partial sum is sent.
        scale: Factor of this rank's input, for `ReduceOp.PREMUL_SUM`.
        foreground: Whether data moves only while some call waits for the operation, which saves
            waking a thread. As `wait`, where it is not given.
        stream: Address of the CUDA stream that a call with device memory follows; 0: the default
            stream. Not given: torch's current one, for tensors of torch.
        label: What a collective is for, as a number that ranks compare; 0: nothing.
    """

    algorithm: Algorithm
    timeout: float | None
    fp32_sums: bool
    scale: float
    foreground: bool
    stream: int
    label: int


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
    """What `CallSettings` says as the C interface takes it. Calls share the result: nobody writes to it.

    Args:
        algorithm: How the operation is carried out.
        timeout: Its deadline, in seconds; None: the communicator's.
        fp32_sums: Whether sums of 16-bit elements are kept in fp32.
        scale: Factor of this rank's input, for `ReduceOp.PREMUL_SUM`.
        foreground: Whether data moves only while some call waits for the operation.
        stream: Address of a CUDA stream, for device memory; 0: the default stream.
        label: What a collective is for, which ranks compare; 0: nothing.

    Returns:
        The structure, with its size set.

    Raises:
        InvalidArgumentError: The timeout is negative or no number.
    """
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
    """A timeout as the C interface takes it.

    Args:
        seconds: 0 or more; None: the default.

    Returns:
        Milliseconds: 0, which stands for the default, for None; at least 1 otherwise.

    Raises:
        InvalidArgumentError: It is negative, no number, or too large.
    """
    if seconds is None:
        return 0
    if not 0 <= seconds < 2**40:  # also what is no number
        raise InvalidArgumentError(f"a timeout of {seconds} s: takes 0 or more seconds")
    return max(1, round(seconds * 1000))


def interruptible(call: Callable[[], int | None]) -> int | None:
    """Makes a communicator in a way that Ctrl-C can end.

    The call may wait for other ranks inside C. So it runs in a thread of its own where the main
    thread asks: Ctrl-C ends the main thread's wait, and the call goes on until its deadline. What
    it makes then is destroyed.

    Args:
        call: Makes a communicator, and returns its handle or None.

    Returns:
        What `call` returned.

    Raises:
        BaseException: What `call` raised, or KeyboardInterrupt.
    """
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
        except BaseException as error:
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
    """Runs a call in a thread of its own, and waits for it for a limited time.

    When the program exits nothing is left that it could wait for: the caller's thread runs it then.

    Args:
        seconds: The longest wait. The call goes on afterwards.
        call: What to run.
    """
    thread = start_thread(call, "horing close")
    if thread is None:
        call()
    else:
        thread.join(seconds)


class Pending:
    """An operation that has not ended, and what it needs until then, whoever still knows of it.

    Its `error` says why it failed, once it has ended.

    Args:
        handle: The ho_request; None for an operation that has ended already.
        what: Its name in texts.
        kept: Buffers and counts that must live until it has ended.
        open_ones: The communicator's open operations. It is one of them until it has ended.
    """

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
        """Looks whether it has ended, without waiting.

        Returns:
            Whether it has. Its error is known after wait() only.
        """
        with self._lock:
            if self.handle is None:
                return True
            done = ctypes.c_int32()
            library().ho_request_test(self.handle, ctypes.byref(done))
            return bool(done.value)

    def join(self, stream: int, slice_ms: int) -> bool:
        """Has a CUDA stream wait for it.

        Args:
            stream: The stream's address.
            slice_ms: The longest wait of the host, in milliseconds.

        Returns:
            False: not in that time, and the stream is as it was.

        Raises:
            HoringError: Why the operation failed.
        """
        with self._lock:
            if self.handle is None:
                return True
            status = library().ho_request_join(self.handle, stream, slice_ms)
            if status not in (0, _library.IN_PROGRESS):
                _library.raise_status(status)
            return bool(status == 0)

    def wait(self, slice_ms: int) -> bool:
        """Waits until it has ended. Then its error is known, and its memory is let go.

        Args:
            slice_ms: The longest wait, in milliseconds.

        Returns:
            Whether it has ended. Errors are kept, not raised.
        """
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


    def set_waiting(self, waiting: bool) -> None:
        """Says whether this thread waits for it, also between its calls of wait() and join().

        Args:
            waiting: False where it goes on with something else. Once it has ended there is nothing to say.
        """
        with self._lock:
            if self.handle is not None:
                library().ho_request_set_waiting(self.handle, int(waiting))


class RequestOwner(Protocol):
    """What a request asks of the communicator that it belongs to."""

    def take_dropped(self, dropped: Pending) -> None:
        """Keeps an operation whose request was dropped, until it ends. Any thread, at any time.

        Args:
            dropped: An operation that has not ended.
        """

    def follow_other(self) -> None:
        """Called between two looks at an operation that is waited for.

        Raises:
            HoringError: The wait is to end.
        """


class Request:
    """An operation under way. Its buffers must stay as they are until it has ended.

    Any thread may wait, one at a time. What it needs is kept alive until then, even if it is
    dropped.

    Attributes:
        report: What the operation moved, complete once it has ended; None for messages and
            barriers.
        device: The CUDA device whose memory the call has; None: memory of the host.

    Args:
        pending: The operation.
        owner: Its communicator.
        source: Where a receive's sender is written.
    """

    def __init__(self, pending: Pending, owner: RequestOwner, source: ctypes.c_int32 | None = None):
        self._pending = pending
        self._owner = owner
        self._source = source
        self.report: OpReport | None = None
        self.device: int | None = None  # whose memory it has

    def __del__(self) -> None:
        if self._pending.handle is not None:
            self._owner.take_dropped(self._pending)

    @property
    def source(self) -> int:
        """The rank whose message a receive got.

        Raises:
            InvalidArgumentError: It is no receive, or has not ended.
        """
        if self._source is None or self._pending.handle is not None:
            raise InvalidArgumentError("source: only of a receive that has ended")
        return self._source.value

    def test(self) -> bool:
        """Looks whether it has ended, without waiting.

        Returns:
            Whether it has; then wait() returns at once.
        """
        return self._pending.test()

    def join(self, stream: int = 0, timeout: float | None = None) -> bool:
        """Has a CUDA stream wait for a call with device memory.

        What the stream is given from now on comes after the call. This may wait for data from other
        ranks, and until the call's stream has got to it. Without device memory it does what wait()
        does.

        Args:
            stream: The stream's address; 0: the default stream.
            timeout: The longest wait of the host, in seconds; None: until the operation's own
                deadline.

        Returns:
            False: not in that time, and the stream is as it was.

        Raises:
            HoringError: Why the operation failed.
        """
        return self._in_slices(functools.partial(self._pending.join, stream), timeout)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it has ended. Ctrl-C ends the wait, not the operation.

        Args:
            timeout: The longest wait, in seconds; None: until the operation's own deadline.

        Returns:
            False: it has not ended in that time, and goes on.

        Raises:
            HoringError: Why the operation failed, in each wait anew.
        """
        return self._in_slices(self._pending.wait, timeout)

    def _in_slices(self, wait_slice: Callable[[int], bool], timeout: float | None) -> bool:
        """Whether `wait_slice` was through within `timeout` seconds.

        Raises:
            HoringError: What ended the operation.
        """
        left = None if timeout is None else milliseconds(timeout)
        waiting = False
        try:
            while not wait_slice(SLICE_MS if left is None else max(min(SLICE_MS, left), 1)):
                if left is not None:
                    left -= SLICE_MS
                    if left <= 0:
                        return False
                elif not waiting:  # without a limit: for the library it is one wait that goes on
                    self._pending.set_waiting(True)
                    waiting = True
                self._owner.follow_other()
        finally:
            if waiting:
                self._pending.set_waiting(False)
        if self._pending.error is not None:
            raise self._pending.error
        return True
