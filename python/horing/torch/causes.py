"""What failed first, over all groups of this process.

Each group finds the first cause among its own ranks: a rank that shares no group with one that died
hears only that a neighbour went. The groups of one process know more together.
"""

from __future__ import annotations

import contextlib
import time
import weakref
from typing import Protocol

from horing.communicator import Communicator
from horing.errors import AbortedError, HoringError, PeerLostError

# Who notices a rank that is gone decides within 200 ms; a larger group may be a little later.
_WAIT_S = 1.0


class Group(Protocol):
    """What an error's text needs of a process group."""

    @property
    def communicator(self) -> Communicator:
        """The one for tensors of the host. Raises `DistBackendError` once the group was shut down."""

    def size(self) -> int:
        """Number of ranks.

        Returns:
            At least 1.
        """

    def described(self) -> str:
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


def knows(group: Group) -> None:
    """From now on a group's failure is known to the others of this process.

    Args:
        group: It is not kept alive by this.
    """
    _groups.add(group)


def first_cause(group: Group, error: BaseException) -> str | None:
    """Why a rank of a group went, where a larger group has lost one before.

    A rank that goes because of an error is no first cause. The larger group loses the rank too, so
    that is waited for, one second at most.

    Args:
        group: The group that failed.
        error: Its error.

    Returns:
        A text that names the larger group and its loss; None where there is none.
    """
    if not isinstance(error, (AbortedError, PeerLostError)):
        return None
    larger = sorted((each for each in _groups if each.size() > group.size()), key=lambda each: -each.size())
    until = time.monotonic() + _WAIT_S
    while larger:
        for each in larger:
            lost = _loss_of(each)
            if lost is not None:
                return f"in {each.described()}: {each.with_global_ranks(str(lost))}"
        if time.monotonic() > until:
            return None
        time.sleep(0.02)
    return None


def _loss_of(group: Group) -> PeerLostError | None:
    with contextlib.suppress(Exception):  # it was shut down meanwhile
        try:
            group.communicator.status()
        except PeerLostError as lost:
            return lost
        except HoringError:
            return None
    return None
