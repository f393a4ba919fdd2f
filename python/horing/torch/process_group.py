"""The process group that torch.distributed is given: how it begins, splits and ends."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from torch._C import _distributed_c10d as c10d

from horing.communicator import Communicator, JobPart
from horing.errors import HoringError
from horing.program_exit import GRACE_S, ends_with_program
from horing.requests import run_for
from horing.torch.causes import knows
from horing.torch.collectives import Collectives
from horing.torch.work import distributed_error

_CLOSE_SECONDS = 2.0  # how long shutdown waits for operations that nobody has waited for


class ProcessGroup(Collectives):
    """A group over communicators of its own: one for tensors of the host, one for those of a CUDA device.

    The second is made in the first call with a tensor of a device, which all ranks make together.

    Any thread may call it; calls of one group go out in the order in which its lock was taken, so
    threads that share a group must agree on an order across ranks, as with every backend. Calls
    return a `Work` at once. Their argument errors are ValueError, failures of the library
    `torch.distributed.DistBackendError`, here or in the work's wait().

    Args:
        store: The group's key-value store, in which its ranks find each other.
        rank: This rank's number in the group.
        size: Ranks of the group.
        timeout: Deadline of the rendezvous, and of each operation.
        communicator: One that is ready, as of split_group(); None: makes one, and waits for all
            ranks.
        global_ranks: The job's numbers of its ranks, by group rank; empty: the same.
        part_of: The job as `horing status` shows it; None: the group is one.

    Raises:
        torch.distributed.DistBackendError: Not all ranks have come in time, or they do not fit
            together.
    """

    def __init__(
        self,
        store: c10d.Store,
        rank: int,
        size: int,
        timeout: timedelta,
        *,
        communicator: Communicator | None = None,
        global_ranks: Sequence[int] = (),
        part_of: JobPart | None = None,
    ):
        super().__init__(store, rank, size, timeout, communicator, global_ranks, part_of)
        self._splits = 0
        self._shut_down: list[Communicator] = []
        knows(self)
        ends_with_program(self)

    def shutdown(self) -> None:
        """Closes the group. Waits two seconds at most for operations that nobody has waited for.

        What has not ended by then goes on in a thread until its deadline, or until the program
        ends.
        """
        with self._lock:
            communicators, self._communicators = self._communicators, None
        if communicators is not None:
            self._shut_down = list(communicators.values())
            # What no peer matches may last until its deadline. It does not hold up the program.
            run_for(_CLOSE_SECONDS, self._end)

    def _end(self) -> None:
        for completer in self._completers.values():
            completer.close()
        for communicator in self._shut_down:
            communicator.close()

    def end_with_program(self, until: float) -> None:
        """Ends what is open, also of a group that was shut down, when the program exits.

        Args:
            until: When to give up and abort, a time of time.monotonic().
        """
        for communicator in [*(self._communicators or {}).values(), *self._shut_down]:
            communicator.end_with_program(until)
        # No thread of ours is inside torch when Python ends.
        for completer in self._completers.values():
            completer.close(GRACE_S)

    def split_group(
        self,
        new_ranks: list[int],
        timeout: timedelta | None = None,
        opts: Any = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        device_types: Any = None,
    ) -> ProcessGroup | None:
        """Makes a group of some of the ranks. Collective over this group.

        Args:
            new_ranks: Ranks of this group; the same on all ranks of the new one.
            timeout: Deadline of its operations; None: this group's.
            opts: torch's argument; not looked at.
            group_name: Its name; None: one made of this group's.
            group_desc: What it is for; None: made of this group's.
            device_types: torch's argument; not looked at.

        Returns:
            The new group, without a rendezvous of its own; None on ranks that are not in it.

        Raises:
            ValueError: There are no such ranks.
            torch.distributed.DistBackendError: A rank did not come or could not make its part.
        """
        wanted = sorted(set(new_ranks))
        if not wanted or wanted[0] < 0 or wanted[-1] >= self._world_size:
            raise ValueError(
                f"split_group: ranks {list(new_ranks)} of a group of {self._world_size} ranks"
            )
        member = self._rank in wanted
        with self._lock:
            self._splits += 1
            name = group_name or f"{self._name}:split:{self._splits}"
            global_ranks = [self._global_ranks[each] for each in wanted]
            # Ranks of one new group, and no others, agree on its lowest rank.
            try:
                made = self.communicator.split(wanted[0] if member else -1, self._rank)
            except HoringError as error:
                failure = distributed_error(error, "split_group", self)
                raise failure from error
        if made is None:
            return None
        group = ProcessGroup(
            c10d.PrefixStore(f"{name}/", self._store),
            made.rank,
            made.world_size,
            timeout or self._timeout,
            communicator=made,
            global_ranks=global_ranks,
            part_of=self._part_of and self._part_of._replace(ranks=global_ranks),
        )
        group._rendezvous_ranks = self._rendezvous_ranks
        group._set_group_name(name)
        group._set_group_desc(group_desc or f"{self._desc}:split:{self._splits}")
        return group

    splitGroup = split_group
