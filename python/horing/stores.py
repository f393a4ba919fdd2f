"""Key-value stores that ranks find each other through, as callbacks of the C interface (ho_store)."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator
from typing import Any, Protocol

from horing._library import (
    GET_CALLBACK,
    SET_CALLBACK,
    WAIT_CALLBACK,
    StoreCallbacks,
    library,
)

_TIMEOUT = 3
_INTERNAL = 12
_SLICE = 0.5  # seconds of one wait; after each it is seen whether the wait was cancelled


class Store(Protocol):
    """What any key-value store can do, as torch's or one of the program's own.

    Called inside Communicator() only, never two calls at a time. Whoever can read or write the
    store can join the job, or pass for one of its ranks.
    """

    def set(self, key: str, value: bytes) -> None:
        """Writes a value, where all ranks can read it.

        Args:
            key: Text without zero bytes.
            value: At most 12 KiB.
        """

    def wait(self, key: str, timeout: float) -> None:
        """Waits until a key is there. It is called again while there is time left.

        Args:
            key: Text without zero bytes.
            timeout: The longest wait, in seconds.

        Raises:
            TimeoutError: The key is not there in that time.
        """

    def get(self, key: str) -> bytes:
        """Reads the value of a key that is there.

        Args:
            key: A key that wait() has found.

        Returns:
            What set() was given.
        """


@contextlib.contextmanager
def callbacks_of(
    store: Store, name: str | None, cancelled: threading.Event
) -> Iterator[StoreCallbacks]:
    """The store as the C interface takes it, for the time of the block.

    What the store raises is the cause of the error that the block raises.

    Args:
        store: The store.
        name: Prefix of the keys; None: the library's own.
        cancelled: Once it is set, a wait in the store ends within half a second.

    Yields:
        The structure, whose callbacks must not be used after the block.

    Raises:
        Exception: What the block raises.
    """
    raised: list[BaseException] = []

    def guarded(action: Any) -> int:
        try:
            return int(action())
        except BaseException as error:
            raised.append(error)
            library().ho_set_last_error_message(str(error).encode())
            return _TIMEOUT if isinstance(error, TimeoutError) else _INTERNAL

    def set_value(context: object, key: bytes, value: int, size: int) -> int:
        def action() -> int:
            store.set(key.decode(), ctypes.string_at(value, size))
            return 0

        return guarded(action)

    def wait(context: object, key: bytes, timeout_ms: int) -> int:
        def action() -> int:
            left = timeout_ms / 1000
            while True:
                if cancelled.is_set():
                    raise InterruptedError("the wait was cancelled")
                try:
                    store.wait(key.decode(), min(left, _SLICE))
                    return 0
                except TimeoutError:
                    left -= _SLICE
                    if left <= 0:
                        raise

        return guarded(action)

    def get(context: object, key: bytes, value: int, capacity: int, size: Any) -> int:
        def action() -> int:
            found = bytes(store.get(key.decode()))
            size[0] = len(found)
            if len(found) <= capacity:  # otherwise the size says what is wrong
                ctypes.memmove(value, found, len(found))
            return 0

        return guarded(action)

    callbacks = StoreCallbacks(
        ctypes.sizeof(StoreCallbacks),
        None,
        None if name is None else name.encode(),
        SET_CALLBACK(set_value),
        WAIT_CALLBACK(wait),
        GET_CALLBACK(get),
    )
    try:
        yield callbacks
    except Exception as error:
        if raised:
            raise error from raised[-1]
        raise
