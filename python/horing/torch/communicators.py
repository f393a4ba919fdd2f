"""The communicators of a process group."""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from horing.communicator import Communicator, JobPart
from horing.errors import HoringError
from horing.torch.arguments import TorchStore
from horing.torch.causes import why_to_end
from horing.torch.identity import Identity
from horing.torch.work import distributed_error

# In which memory a call's tensors are.
Memory = Literal["host", "device"]


class Communicators(Identity):
    """The part of a process group that meets its ranks: one communicator for each kind of memory.

    Args:
        store: The group's key-value store.
        rank: This rank's number in the group.
        size: Ranks of the group.
        timeout: Deadline of its operations.
        communicator: The one for tensors of the host; None: makes it, and waits for all ranks.
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
        communicator: Communicator | None,
        global_ranks: Sequence[int],
        part_of: JobPart | None,
    ):
        super().__init__(store, rank, size, timeout)
        self._global_ranks = self._rendezvous_ranks = list(global_ranks) or self._global_ranks
        self._part_of = part_of
        self._lock = threading.RLock()
        if communicator is None:
            what = f"making a group of {size} ranks (all of them with this backend)"
            communicator = self._make_communicator(what, None)
        self._communicators: dict[Memory, Communicator] | None = {"host": communicator}
        self._end_in_time(communicator)

    def _make_communicator(self, what: str, device: int | None) -> Communicator:
        local_rank = os.environ.get("LOCAL_RANK", "")
        seconds = self._timeout.total_seconds()
        try:
            return Communicator(
                self._rank,
                self._world_size,
                local_rank=int(local_rank) if local_rank.isdecimal() else None,
                timeout=seconds,
                rendezvous_timeout=seconds,
                store=TorchStore(self._store) if self._world_size > 1 else None,
                store_name=None if device is None else "horing on devices",
                device=device,
                rank_name=f"global rank {self._global_ranks[self._rank]}",
                part_of=self._part_of,
            )
        except HoringError as error:
            raise distributed_error(error, what, None) from error

    def _end_in_time(self, communicator: Communicator) -> None:
        """Ends its waits for what another group knows to be in vain."""
        this = weakref.ref(self)

        def why() -> str | None:
            group = this()
            return None if group is None or group._communicators is None else why_to_end(group)

        communicator.end_when(why)

    def _named(self) -> None:
        for kind, communicator in (self._communicators or {}).items():
            reported = repr((self._name, self._desc, self._global_ranks, kind)).encode()
            number = int.from_bytes(hashlib.blake2b(reported, digest_size=8).digest(), "little")
            communicator.set_name(self.short_name, number or 1)

    def _communicator_of(self, device: int | None) -> Communicator:
        if device is None:
            return self.communicator
        self.communicator.status()  # what has ended the host's, an abort of a parent too, ends both
        if self._communicators is not None and "device" not in self._communicators:
            what = f"the first call of {self!r} with memory of a device (on all ranks together)"
            made = self._make_communicator(what, device)
            made.end_with(self.communicator)
            self._communicators["device"] = made
            self._end_in_time(made)
            self._named()
        return self._communicator("device")

    def eager_connect_single_device(self, device: torch.device) -> None:
        """Connects for tensors of a device now instead of in the first call.

        For `device_id=` of init_process_group and new_group. All ranks call it.

        Args:
            device: The device; nothing is done for the CPU.

        Raises:
            torch.distributed.DistBackendError: Not all ranks have come in time, or there is no
                driver.
        """
        if device.type == "cuda":
            with self._lock:
                self._communicator_of(device.index)

    @property
    def communicator(self) -> Communicator:
        """The one for tensors of the host. Raises `DistBackendError` once the group was shut down."""
        return self._communicator("host")

    def _communicator(self, kind: Memory) -> Communicator:
        if self._communicators is None:
            raise dist.DistBackendError(f"horing: {self!r} was shut down")
        return self._communicators[kind]

    def abort(self, reason: str | None = None) -> None:
        """Ends every wait on every rank of the group, with the reason. Any thread may call it.

        Args:
            reason: What the errors of all ranks say; None: that the group was aborted.

        Raises:
            HoringError: A communicator was closed meanwhile.
        """
        for communicator in list((self._communicators or {}).values()):
            communicator.abort(reason or f"{self.text()} was aborted")
