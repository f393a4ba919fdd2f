"""The job that the groups of a program are parts of, as `horing status` and records show it."""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Sequence

from torch._C import _distributed_c10d as c10d

from horing.communicator import JobPart

logger = logging.getLogger("horing")

# torchrun's ranks that start again meet in the store of those before them.
_RESTARTS = "TORCHELASTIC_RESTART_COUNT"


def part_of_job(store: c10d.Store, ranks: Sequence[int], size: int) -> JobPart | None:
    """What a group tells the library about its job. Its ranks agree on the job's number, as all groups do.

    Args:
        store: The group's key-value store. The number is in the one below its prefixes, which is the same
            for all groups of a program.
        ranks: The job's numbers of the group's ranks, by group rank.
        size: Ranks of the job.

    Returns:
        The group's part; None where the store cannot agree on a number: `horing status` shows the group as
        a job of its own then.
    """
    while isinstance(store, c10d.PrefixStore):
        store = store.underlying_store
    key = f"horing/job/{os.environ.get(_RESTARTS, '0')}"
    drawn = f"{secrets.randbits(64) or 1:016x}"
    try:
        # Whoever comes first sets it.
        agreed = int(bytes(store.compare_set(key, "", drawn)), 16)
    except Exception as error:  # a store of the program's own may lack it, and nothing but status needs it
        logger.info("horing status shows each group as a job: the store has no number for them: %s", error)
        return None
    return JobPart(agreed, size, list(ranks))
