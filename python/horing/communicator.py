"""A communicator and its operations, as in horing.h, with Python's exceptions and memory."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from horing._library import (
    ANY_SOURCE,
    DEVICE_LOCAL_RANK,
    DEVICE_NONE,
    CommOptions,
    int32,
    library,
)
from horing.buffers import Buffer, buffer_of
from horing.collectives import Collectives
from horing.errors import InvalidArgumentError, UnsupportedError
from horing.requests import CallSettings, Request, interruptible, milliseconds
from horing.stores import Store, callbacks_of
from horing.types import DType

if TYPE_CHECKING:
    from typing_extensions import Unpack  # typing's begins with Python 3.11


class JobPart(NamedTuple):
    """Of which larger job a communicator is a group: `horing status` shows all groups of a job together.

    Attributes:
        job: The job's number, the same on all its ranks; below 2**64, not 0.
        size: How many ranks the job has.
        ranks: The communicator's ranks by their numbers in the job.
    """

    job: int
    size: int
    ranks: Sequence[int]


class Communicator(Collectives):
    """Ranks that run collectives together. Making one is collective, and waits until all have come.

    Without arguments rank, world size and rendezvous come from the environment (torchrun's,
    Slurm's, Open MPI's or PMI's variables). One thread at a time may make calls; any thread may
    call abort() and the getters, and wait for requests. It belongs to the process that made it: a
    forked child may not use it.

    A call that fails, or whose deadline passes, ends the communicator and what was split from it on
    all ranks, with one text: the first cause. Later calls raise that error again.

    Args:
        rank: This rank's number, from 0; None: from the environment.
        world_size: Number of ranks; None: from the environment.
        local_rank: Number of this rank on its node; None: not known.
        rendezvous: Where the ranks find each other, "tcp://HOST:PORT" or "file:///PATH"; None: from the
            environment.
        job_key: Secret of the job, the same on all ranks; None: HORING_JOB_KEY or
            HORING_JOB_KEY_FILE.
        host_id: Ranks with the same one are a node; None: HORING_HOST_ID or the machine's identity.
        timeout: Deadline of each operation, in seconds; None: HORING_TIMEOUT_MS.
        rendezvous_timeout: Deadline for all ranks to come, in seconds, here and in split(); None:
            HORING_CONNECT_TIMEOUT_MS.
        store: Where the ranks find each other instead of `rendezvous`. Needs `rank` and `world_size`. It is
            used inside this call only.
        store_name: Prefix of the keys in the store, one for each communicator whose ranks join there;
            None: "horing".
        device: CUDA device whose memory calls may have, or "local_rank" for that of the local rank
            among the visible ones; None: memory of the host only.
        rank_name: What errors call this rank, where it has another number in the program: "global rank 5";
            None: "rank 5".
        part_of: The job whose group it is, as `horing status` and records show it; None: it is a job of
            its own.

    Raises:
        InvalidArgumentError: An argument or variable is wrong or missing.
        TimeoutError: Not all ranks have come in time. The text names those that are missing.
        UnauthenticatedError: A rank has another job key.
        MismatchError: Ranks disagree on settings that all must share.
        UnsupportedError: There is no CUDA driver for `device`, or one that is too old.
        ImportError: libhoring was not found.
    """

    def __init__(
        self,
        rank: int | None = None,
        world_size: int | None = None,
        *,
        local_rank: int | None = None,
        rendezvous: str | None = None,
        job_key: str | None = None,
        host_id: str | None = None,
        timeout: float | None = None,
        rendezvous_timeout: float | None = None,
        store: Store | None = None,
        store_name: str | None = None,
        device: int | Literal["local_rank"] | None = None,
        rank_name: str | None = None,
        part_of: JobPart | None = None,
    ):
        self._start(_device_number(device))
        text = {
            "rendezvous": rendezvous,
            "job_key": job_key,
            "host_id": host_id,
        }
        options = CommOptions(
            ctypes.sizeof(CommOptions),
            *(-1 if each is None else int32(each) for each in (rank, world_size, local_rank)),
            *(None if each is None else each.encode() for each in text.values()),
            milliseconds(timeout),
            None,
            milliseconds(rendezvous_timeout),
            self._device,
            None if rank_name is None else rank_name.encode(),
        )
        if part_of is not None:
            options.job, options.job_size = part_of.job, int32(part_of.size)
            options.job_ranks = (ctypes.c_int32 * len(part_of.ranks))(*map(int32, part_of.ranks))
            options.job_rank_count = len(part_of.ranks)
        cancelled = threading.Event()

        def create() -> int | None:
            handle = ctypes.c_void_p()
            with contextlib.ExitStack() as stack:
                if store is not None:
                    callbacks = stack.enter_context(callbacks_of(store, store_name, cancelled))
                    options.store = ctypes.cast(ctypes.pointer(callbacks), ctypes.c_void_p)
                library().ho_comm_create(ctypes.byref(options), ctypes.byref(handle))
            return handle.value

        try:
            self._begin(interruptible(create))
        except KeyboardInterrupt:
            cancelled.set()
            raise

    def split(self, color: int, key: int = 0) -> Communicator | None:
        """Makes communicators of some of the ranks. Collective over this one, and waits for all its ranks.

        Args:
            color: Ranks with the same one form a communicator. Below 0: this rank takes part and
                gets none.
            key: Ranks are ordered by it, then by their rank here.

        Returns:
            The communicator of this rank's color, with this one's device; None for a color below 0.
            It fails with this one, and this one goes on where it fails.

        Raises:
            InvalidArgumentError: The communicator is closed, or a number does not fit into 32 bits.
            HoringError: A rank could not make its part. All ranks of the color get its error, and
                this communicator stays usable.
        """
        color, key, parent = int32(color), int32(key), self.handle

        def create() -> int | None:
            made = ctypes.c_void_p()
            library().ho_comm_split(parent, color, key, ctypes.byref(made))
            return made.value

        handle = interruptible(create)
        if handle is None:
            return None
        split = Communicator.__new__(Communicator)
        split._start(self._device)
        split._begin(handle)
        return split

    @property
    def group_count(self) -> int:
        """Number of groups (nodes)."""
        return int(library().ho_comm_group_count(self.handle))

    @property
    def rail_count(self) -> int:
        """Number of rails: rings between groups that move data at the same time."""
        return int(library().ho_comm_rail_count(self.handle))

    def group_of(self, rank: int) -> int:
        """The group of a rank.

        Args:
            rank: A rank of this communicator.

        Returns:
            The group's number, from 0; below 0 for a rank out of range.

        Raises:
            InvalidArgumentError: The communicator is closed.
        """
        return int(library().ho_comm_group_of(self.handle, int32(rank)))

    def group_rank_of(self, rank: int) -> int:
        """The number of a rank within its group.

        Args:
            rank: A rank of this communicator.

        Returns:
            The number, from 0; below 0 for a rank out of range.

        Raises:
            InvalidArgumentError: The communicator is closed.
        """
        return int(library().ho_comm_group_rank_of(self.handle, int32(rank)))

    def group_size(self, group: int) -> int:
        """Number of ranks of a group.

        Args:
            group: A group, from 0.

        Returns:
            How many ranks it has; below 0 for a group out of range.

        Raises:
            InvalidArgumentError: The communicator is closed.
        """
        return int(library().ho_comm_group_size(self.handle, int32(group)))

    def rail_of(self, rank: int) -> int:
        """The rail of a rank.

        Args:
            rank: A rank of this communicator.

        Returns:
            The rail's number, from 0; below 0 for a rank out of range and for an extra rank, which
            has no rail of its own.

        Raises:
            InvalidArgumentError: The communicator is closed.
        """
        return int(library().ho_comm_rail_of(self.handle, int32(rank)))

    @property
    def device(self) -> int | None:
        """The number of the CUDA device whose memory its calls may have; None: host memory only."""
        number = int(library().ho_comm_device(self.handle))
        return None if number == DEVICE_NONE else number

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory that the library holds for it on this rank, now."""
        return int(library().ho_comm_memory_bytes(self.handle))

    # --- point to point

    def send(
        self, data: Any, peer: int, tag: int = 0, *, wait: bool = True, **settings: Unpack[CallSettings]
    ) -> Request:
        """Sends a message to one rank. It may wait until the peer has posted its receive.

        Args:
            data: n elements of host memory.
            peer: The rank that gets them; this one is allowed.
            tag: Any 32-bit number. Messages of one tag do not overtake each other.
            wait: Whether to return when the memory may be used again; False: at once.
            **settings: Options of the call, see `CallSettings`.

        Returns:
            The operation. With `wait` it has ended.

        Raises:
            InvalidArgumentError: No such rank, or the communicator is closed.
            UnsupportedError: Device memory; copy it to the host first.
            HoringError: With `wait`: why it failed, `MismatchError` where the receive has another
                count or type.
        """
        what = _host_buffer(data, writable=False)
        return self._message(library().ho_send, what, peer, tag, settings, wait)

    def recv(
        self,
        data: Any,
        peer: int = ANY_SOURCE,
        tag: int = 0,
        *,
        wait: bool = True,
        **settings: Unpack[CallSettings],
    ) -> Request:
        """Receives a message from one rank, or from any.

        Args:
            data: n elements of host memory, which are written: exactly as many as the message has.
            peer: The rank that sends; ANY_SOURCE: whichever has a message, each in its turn.
            tag: The message's tag.
            wait: Whether to return when the message is there; False: at once.
            **settings: Options of the call, see `CallSettings`.

        Returns:
            The operation. Once it has ended, its `source` is the rank that sent.

        Raises:
            InvalidArgumentError: No such rank, read-only memory, or the communicator is closed.
            UnsupportedError: Device memory; receive into the host's.
            HoringError: With `wait`: why it failed, `MismatchError` where the message has another
                count or type.
        """
        into, source = _host_buffer(data, writable=True), ctypes.c_int32(int32(peer))
        return self._message(library().ho_recv, into, peer, tag, settings, wait, source)

    def register(self, memory: Any) -> None:
        """Pins host memory, so that calls may have it beside device memory. Slow: once, not for each call.

        Args:
            memory: What the calls will have. It must stay until deregister().

        Raises:
            InvalidArgumentError: It has no contiguous memory, or the communicator is closed.
            UnsupportedError: The communicator has no device.
        """
        what = buffer_of(memory, writable=False, what="memory")
        library().ho_comm_register(self.handle, what.address, what.count * what.dtype.itemsize)

    def deregister(self, memory: Any) -> None:
        """Ends what register() began. Not while a call with that memory is under way.

        Args:
            memory: The same memory as in register().

        Raises:
            InvalidArgumentError: The memory was not registered, or the communicator is closed.
        """
        library().ho_comm_deregister(
            self.handle, buffer_of(memory, writable=False, what="memory").address
        )


def _host_buffer(data: Any, *, writable: bool) -> Buffer:
    buffer = buffer_of(data, writable=writable, what="data")
    if buffer.device is not None:
        raise UnsupportedError("data: sends and receives move memory of the host; copy it there first")
    return buffer


def _device_number(device: int | str | None) -> int:
    if device is None:
        return DEVICE_NONE
    if device == "local_rank":
        return DEVICE_LOCAL_RANK
    if isinstance(device, str) or int32(device) < 0:
        raise InvalidArgumentError(
            f"device {device!r}: takes the number of a CUDA device, or \"local_rank\""
        )
    return int32(device)


__all__ = ["Communicator", "DType", "Request"]
