"""Who a group is: its names, ranks and settings, under all names by which torch asks for them."""

from __future__ import annotations

import contextlib
import functools
import re
import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from horing.torch.unsupported import Refused

# "rank 5" of "rank 5 (node1, pid 123)" and of what the coordinator says, a process. Who has left the
# library calls by its global rank itself.
_PROCESS = re.compile(r"(?<!global )\brank (\d+)(?= \([^()]*, pid \d+\)| is in | has not entered )")


def _global_name(global_ranks: list[int], found: re.Match[str]) -> str:
    rank = int(found[1])
    if rank >= len(global_ranks) or global_ranks == list(range(len(global_ranks))):
        return found[0]
    return f"global rank {global_ranks[rank]}"


class Identity(Refused, dist.ProcessGroup):
    """What torch asks of a group beside its operations.

    Most of it is not documented by torch: docs/design/adr/0022-torch-backend.md.

    Args:
        store: The group's key-value store.
        rank: This rank's number in the group.
        size: Ranks of the group.
        timeout: Deadline of its operations.
    """

    def __init__(self, store: c10d.Store, rank: int, size: int, timeout: timedelta):
        super().__init__(rank, size)  # type: ignore[call-arg]  # the form for Python's groups
        self._store = store
        self._rank, self._world_size = rank, size
        self._timeout = timeout
        self._name = ""
        self._desc = "undefined"
        self._sequence = 0
        self._labels = threading.local()  # .number, inside labelled()
        self._global_ranks = list(range(size))  # of its ranks
        # The same of the group whose ranks have found each other: what was split from it has its processes' numbers.
        self._rendezvous_ranks = self._global_ranks

    def getBackendName(self) -> str:
        """The backend's name.

        Returns:
            "horing".
        """
        return "horing"

    name = _get_backend_name = getBackendName

    def rank(self) -> int:
        """This rank's number in the group.

        Returns:
            From 0.
        """
        return self._rank

    def size(self) -> int:
        """Number of ranks.

        Returns:
            At least 1.
        """
        return self._world_size

    getRank = rank
    getSize = size

    def getGroupName(self) -> str:
        """The name that torch has given the group, the same on all its ranks.

        Returns:
            Empty until torch has set it.
        """
        return self._name

    def setGroupName(self, name: str) -> None:
        """Sets torch's own name of the group.

        Args:
            name: The same on all its ranks.
        """
        self._name = name
        self._named()

    def getGroupDesc(self) -> str:
        """What the group is for, as its maker said.

        Returns:
            "undefined" where nobody said.
        """
        return self._desc

    def setGroupDesc(self, desc: str) -> None:
        """Sets what the group is for.

        Args:
            desc: A text that errors show.
        """
        self._desc = desc
        self._named()

    group_name = pg_name = property(getGroupName)
    group_desc = property(getGroupDesc)
    _set_group_name = setGroupName
    _set_group_desc = setGroupDesc

    def get_group_store(self) -> c10d.Store:
        """The group's key-value store.

        Returns:
            The store in which its ranks found each other.
        """
        return self._store

    @property
    def ranks(self) -> Sequence[int]:
        """The job's numbers of its ranks."""
        return self._global_ranks

    @property
    def short_name(self) -> str:
        """The group by what it is for, as errors of other groups name it."""
        return f"group {(self._name if self._desc in ('', 'undefined') else self._desc)!r}"

    def _named(self) -> None:
        """Called when torch has given it another name."""

    def text(self) -> str:
        """How messages name the group: by what it is for, and by the ranks of the job that it has.

        Returns:
            One line.
        """
        text = f"{self.short_name} (rank {self._rank} of {self._world_size}"
        if self._global_ranks != list(range(self._world_size)):
            listed = ", ".join(map(str, self._global_ranks[:16]))
            text += f"; its ranks are global ranks {listed}" + ", ..." * (self._world_size > 16)
        return text + ")"

    def with_global_ranks(self, text: str) -> str:
        """Puts numbers in the job in place of those in the group.

        What another group has put into the text has them already.

        Args:
            text: A text of the library.

        Returns:
            The text with global ranks.
        """
        return _PROCESS.sub(functools.partial(_global_name, self._rendezvous_ranks), text)

    @contextlib.contextmanager
    def labelled(self, number: int) -> Iterator[None]:
        """What this thread's collectives inside the block are for.

        Ranks compare it, and the order of all calls that have one, whatever their kind.

        Args:
            number: Of the caller's; not 0.

        Yields:
            Nothing.
        """
        before, self._labels.number = self.label, number
        try:
            yield
        finally:
            self._labels.number = before

    @property
    def label(self) -> int:
        """The number of the block of labelled() that this thread is in; 0: none."""
        number: int = getattr(self._labels, "number", 0)
        return number

    def __repr__(self) -> str:
        return f"horing.torch.ProcessGroup({self._name!r}, {self.text()})"

    # --- what torch asks a backend for

    def _get_backend(self, device: torch.device) -> Any:
        return self

    get_backend = _get_backend

    @property
    def _device_types(self) -> list[torch.device]:
        """The CPU is one of them, which torch's object collectives take then."""
        with_cuda = torch.version.cuda is not None  # asks no driver
        return [torch.device("cpu"), *([torch.device("cuda")] if with_cuda else [])]

    @property
    def supports_splitting(self) -> bool:
        """True: torch.distributed.split_group may be called."""
        return True

    @property
    def supports_coalescing(self) -> bool:
        """False: torch's batch_isend_irecv makes its calls one by one."""
        return False

    @property
    def bound_device_id(self) -> torch.device | None:
        """None: a group serves any device."""
        return None

    @bound_device_id.setter
    def bound_device_id(self, device: torch.device | None) -> None:
        pass

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets the deadline of operations that begin from now on.

        Args:
            timeout: For calls that give none of their own.
        """
        self._timeout = timeout

    _set_default_timeout = set_timeout

    def _set_sequence_number_for_group(self) -> None:
        pass

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def _has_hooks(self) -> bool:
        return False

    def _wait_for_pending_works(self) -> None:
        pass
