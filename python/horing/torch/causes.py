"""What failed first, over all groups of this process.

Each group finds the first cause among its own ranks: a rank that shares no group with one that went
hears only that a neighbour went. The groups of one process know more together. So a group that
cannot go on because of a rank tells the larger groups that it lies in, and each group's waits end
with what a larger one has heard.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
import weakref
from collections.abc import Sequence
from typing import Protocol

from horing.communicator import Communicator
from horing.errors import AbortedError, HoringError, MismatchError, PeerLostError
from horing.requests import run_for

# Who notices a rank that is gone decides within 200 ms; a larger group may be a little later.
_WAIT_S = 1.0
# How a larger group's text begins where one inside it has told it of a rank that left both.
_REPORTED = "a rank that others wait for has left"
# "(node1, pid 123)": the same in the texts of all groups.
_PROCESS = re.compile(r"\([^()]*, pid \d+\)")


class Group(Protocol):
    """What an error's text needs of a process group."""

    @property
    def communicator(self) -> Communicator:
        """The one for tensors of the host. Raises `DistBackendError` once the group was shut down."""

    @property
    def ranks(self) -> Sequence[int]:
        """The job's numbers of its ranks."""

    @property
    def short_name(self) -> str:
        """How texts of other groups name it."""

    def abort(self, reason: str | None = None) -> None:
        """Ends every wait on every rank of the group.

        Args:
            reason: What the errors of all ranks say.
        """

    def text(self) -> str:
        """How messages name the group.

        Returns:
            Its name and this rank's number in it.
        """

    def with_global_ranks(self, text: str) -> str:
        """Puts numbers in the job in place of those in the group.

        Args:
            text: A text of the library.

        Returns:
            The text with global ranks.
        """


_groups: weakref.WeakSet[Group] = weakref.WeakSet()
_groups_lock = threading.Lock()  # groups are made while other threads wait in operations


def knows(group: Group) -> None:
    """From now on a group's failure is known to the others of this process.

    Args:
        group: It is not kept alive by this.
    """
    with _groups_lock:
        _groups.add(group)


def _known() -> list[Group]:
    with _groups_lock:
        return list(_groups)


def first_cause(group: Group, error: BaseException) -> str | None:
    """Why a rank of a group went, where a larger group knows of one that went before.

    A rank that goes because of an error is no first cause. The larger group loses the rank too, so
    that is waited for, one second at most. Where the rank has left both, with its program, all
    ranks are told, for those that share no other group with it.

    Args:
        group: The group that failed.
        error: Its error.

    Returns:
        A text that names the larger group and its loss; None where there is none.
    """
    if not isinstance(error, (AbortedError, PeerLostError)):
        return None
    larger = _larger_than(group)
    until = time.monotonic() + _WAIT_S
    while larger:
        for each in larger:
            lost = _loss_of(each)
            if lost is not None:
                return _reported(each, lost)
            left = _left(each, error)
            if left is not None:
                _tell(each, group, left)
                return f"in {each.text()}: {left}"
        if time.monotonic() > until:
            return None
        time.sleep(0.02)
    return None


def why_to_end(group: Group) -> str | None:
    """Why waits of a group are in vain: what another group of this process has heard. Does not wait.

    Args:
        group: One in which a thread waits.

    Returns:
        The reason to abort it; None: it may go on.
    """
    for each in _larger_than(group):
        lost = _loss_of(each)
        if lost is not None:
            return f"first {_reported(each, lost)}"
    for each in _known():
        circle = _failure_of(each)
        if each is not group and isinstance(circle, MismatchError) and f"of {group.short_name}," in str(circle):
            return f"first {_reported(each, circle)}"
    return None


def _tell(larger: Group, failed: Group, left: str) -> None:
    """Ends what cannot go on without a rank that has left: a larger group, and those inside it.

    The coordinator of the larger one may be the rank that left. So it comes last, and in a thread.
    """
    inside = [each for each in _known() if set(each.ranks) < set(larger.ranks) and each is not failed]
    for each in inside:
        if _failure_of(each) is None:
            with contextlib.suppress(Exception):  # it was shut down meanwhile
                each.abort(f"first in {larger.text()}: {left}")

    def tell_larger() -> None:
        with contextlib.suppress(Exception):
            larger.abort(f"{_REPORTED}: {left}")

    run_for(_WAIT_S, tell_larger)


def _larger_than(group: Group) -> list[Group]:
    ranks = set(group.ranks)
    return sorted((each for each in _known() if ranks < set(each.ranks)), key=lambda each: -len(each.ranks))


def _reported(group: Group, error: HoringError) -> str:
    return f"in {group.text()}: {group.with_global_ranks(str(error))}"


def _failure_of(group: Group) -> HoringError | None:
    with contextlib.suppress(Exception):  # it was shut down meanwhile
        try:
            group.communicator.status()
        except HoringError as error:
            return error
    return None


def _loss_of(group: Group) -> HoringError | None:
    """Of a rank. Other failures of a larger group do not end those inside it."""
    error = _failure_of(group)
    lost = isinstance(error, PeerLostError) or (isinstance(error, AbortedError) and _REPORTED in str(error))
    return error if lost else None


def _left(group: Group, error: HoringError) -> str | None:
    """Whom an error speaks of, where that one has left the group too."""
    with contextlib.suppress(Exception):  # it was shut down meanwhile
        left = group.communicator.left()
        process = left and _PROCESS.search(str(left))
        if process and process[0] in str(error):
            return group.with_global_ranks(str(left))
    return None
