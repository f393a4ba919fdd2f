"""What failed first. Each group finds the first cause among its own ranks: a rank that shares no group
with one that died hears only that a neighbour went. The groups of one process know more together."""

from __future__ import annotations

import contextlib
import time
import weakref
from typing import TYPE_CHECKING

from horing.errors import AbortedError, HoringError, PeerLostError

if TYPE_CHECKING:
    from horing.torch.process_group import ProcessGroup

# Who notices a rank that is gone decides within 200 ms; a larger group may be a little later.
_WAIT_S = 1.0
_groups: weakref.WeakSet[ProcessGroup] = weakref.WeakSet()


def knows(group: ProcessGroup) -> None:
    """From now on its failure is known to the others of this process."""
    _groups.add(group)


def first_cause(group: ProcessGroup, error: BaseException) -> str | None:
    """Why a rank of the group went, where a larger group has lost one before: a rank that goes because of
    an error is no first cause. The larger group loses the rank too, so that is waited for."""
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


def _loss_of(group: ProcessGroup) -> PeerLostError | None:
    with contextlib.suppress(Exception):  # it was shut down meanwhile
        try:
            group.communicator.status()
        except PeerLostError as lost:
            return lost
        except HoringError:
            return None
    return None
