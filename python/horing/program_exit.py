"""The exit of the program: what is open gets a second to end, then it is aborted.

A thread that is started while the interpreter ends never runs, and whoever waits for it never
returns. So threads of this package are started here, and none once the exit has begun.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Protocol

GRACE_S = 1.0
# An abort takes 6 s where rank 0 does not answer. With many communicators the rest is left as it is.
_LIMIT_S = 8.0


class EndsWithProgram(Protocol):
    """What has to end before the program does: a communicator or a process group."""

    def end_with_program(self, until: float) -> None:
        """Refuses further calls, and waits for what is open.

        Args:
            until: When to give up, a time of time.monotonic().
        """


_numbers = itertools.count()
_alive: weakref.WeakValueDictionary[int, EndsWithProgram] = weakref.WeakValueDictionary()
_begun = threading.Event()


def has_begun() -> bool:
    """Whether the exit of the program has begun, so that no thread may be started.

    Returns:
        False until Python has ended its own threads.
    """
    return _begun.is_set()


def ends_with_program(thing: EndsWithProgram) -> None:
    """Has a thing ended when the program exits, those that were made last first.

    Args:
        thing: It is not kept alive by this.
    """
    _alive[next(_numbers)] = thing


def start_thread(run: Callable[[], None], name: str) -> threading.Thread | None:
    """Starts a daemon thread, unless the program exits.

    Args:
        run: What the thread does.
        name: The thread's name.

    Returns:
        The thread; None: the program exits, and nothing was started.
    """
    if has_begun():
        return None
    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


def _end() -> None:
    _begun.set()
    until = time.monotonic() + GRACE_S
    # A daemon thread may add one meanwhile: this list is made in one step.
    for made in sorted(_alive.valuerefs(), key=lambda each: each.key, reverse=True):
        thing = made()
        if thing is not None and time.monotonic() < until + _LIMIT_S:
            with contextlib.suppress(Exception):
                thing.end_with_program(until)


# Python calls it after its own threads have ended, and while threads can still start.
atexit.register(_end)
# What a child was forked with is its parent's.
os.register_at_fork(after_in_child=_alive.clear)
