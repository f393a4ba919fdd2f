"""A communicator and its operations, as in horing.h, with Python's exceptions and memory."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from horing._library import (
    ANY_SOURCE,
    DEVICE_LOCAL_RANK,
    DEVICE_NONE,
    CallOptions,
    CommOptions,
    OpReport,
    int32,
    library,
)
from horing.buffers import Buffer, buffer_of
from horing.errors import InvalidArgumentError, UnsupportedError
from horing.lifetime import Lifetime
from horing.requests import CallSettings, Pending, Request, call_options, interruptible, milliseconds
from horing.stores import Store, callbacks_of
from horing.types import DType, ReduceOp

if TYPE_CHECKING:
    from typing_extensions import Unpack  # typing's begins with Python 3.11


class Communicator(Lifetime):
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
        rendezvous: Where the ranks meet, "tcp://HOST:PORT" or "file:///PATH"; None: from the
            environment.
        job_key: Secret of the job, the same on all ranks; None: HORING_JOB_KEY or
            HORING_JOB_KEY_FILE.
        host_id: Ranks with the same one are a node; None: HORING_HOST_ID or the machine's identity.
        timeout: Deadline of each operation, in seconds; None: HORING_TIMEOUT_MS.
        rendezvous_timeout: Deadline for all ranks to come, in seconds, here and in split(); None:
            HORING_CONNECT_TIMEOUT_MS.
        store: Where the ranks meet instead of `rendezvous`. Needs `rank` and `world_size`. It is
            used inside this call only.
        store_name: Prefix of the keys in the store, one for each communicator that meets there;
            None: "horing".
        device: CUDA device whose memory calls may have, or "local_rank" for that of the local rank
            among the visible ones; None: memory of the host only.

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
        )
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
    def rank(self) -> int:
        """This rank's number in the communicator, from 0."""
        return int(library().ho_comm_rank(self.handle))

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return int(library().ho_comm_world_size(self.handle))

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

    # --- collectives. Each returns a Request; wait() on it, or use the call's `wait=True`, which is
    # the default. Shapes are horing.h's.

    def all_gather(self, send: Any, recv: Any, *, wait: bool = True, **settings: Unpack[CallSettings]) -> Request:
        """Every rank gets the elements of all ranks, by rank. All ranks call it.

        Args:
            send: This rank's n elements.
            recv: world_size * n elements of the same type, which are written. In place where `send`
                is this rank's block of it.
            wait: Whether to return when the result is there; False: at once, and both buffers stay
                as they are until the request has ended.
            **settings: Options of the call, see `CallSettings`.

        Returns:
            The operation. With `wait` it has ended, and its `report` says what it moved.

        Raises:
            InvalidArgumentError: Sizes or types do not fit, or the communicator is closed.
            UnsupportedError: The element type, or device memory without a `device`.
            HoringError: With `wait`: why the operation failed, also on another rank.
        """
        source, target = self._pair(send, recv)
        _expect(target, source.count * self.world_size, "recv")
        return self._collective(library().ho_all_gather, source, target, source.count, settings, wait)

    def all_gather_counts(
        self,
        send: Any,
        recv: Any,
        counts: Sequence[int],
        *,
        wait: bool = True,
        **settings: Unpack[CallSettings],
    ) -> Request:
        """As all_gather, with a count of its own for each rank.

        Args:
            send: counts[rank] elements.
            recv: sum(counts) elements of the same type, which are written.
            counts: Elements of each rank, by rank; the same on all ranks.
            wait: Whether to return when the result is there; False: at once, and both buffers stay
                as they are until the request has ended.
            **settings: Options of the call, see `CallSettings`.

        Returns:
            The operation. With `wait` it has ended.

        Raises:
            InvalidArgumentError: Counts, sizes or types do not fit, or the communicator is closed.
            UnsupportedError: The element type, or device memory without a `device`.
            HoringError: With `wait`: why the operation failed, also on another rank.
        """
        source, target = self._pair(send, recv)
        per_rank = self._counts(counts)
        _expect(source, counts[self.rank], "send")
        _expect(target, sum(counts), "recv")
        return self._collective(library().ho_all_gather_counts, source, target, per_rank, settings, wait)

    def reduce_scatter(
        self,
        send: Any,
        recv: Any,
        op: ReduceOp = ReduceOp.SUM,
        *,
        wait: bool = True,
        **settings: Unpack[CallSettings],
    ) -> Request:
        """Reduces over all ranks and leaves each rank its block of the result. All ranks call it.

        Args:
            send: world_size * n elements, a block for each rank.
            recv: n elements of the same type, which are written. In place where it is this rank's
                block of `send`.
            op: The reduction.
            wait: Whether to return when the result is there; False: at once, and both buffers stay
                as they are until the request has ended.
            **settings: Options of the call, see `CallSettings`.

        Returns:
            The operation. With `wait` it has ended.

        Raises:
            InvalidArgumentError: Sizes or types do not fit, or the communicator is closed.
            UnsupportedError: The type has no such reduction, or device memory without a `device`.
            HoringError: With `wait`: why the operation failed, also on another rank.
        """
        source, target = self._pair(send, recv)
        _expect(source, target.count * self.world_size, "send")
        return self._collective(
            library().ho_reduce_scatter, source, target, target.count, settings, wait, op
        )

    def reduce_scatter_counts(
        self,
        send: Any,
        recv: Any,
        counts: Sequence[int],
        op: ReduceOp = ReduceOp.SUM,
        *,
        wait: bool = True,
        **settings: Unpack[CallSettings],
    ) -> Request:
        """As reduce_scatter, with a count of its own for each rank.

        Args:
            send: sum(counts) elements, a block for each rank.
            recv: counts[rank] elements of the same type, which are written.
            counts: Elements for each rank, by rank; the same on all ranks.
            op: The reduction.
            wait: Whether to return when the result is there; False: at once, and both buffers stay
                as they are until the request has ended.
            **settings: Options of the call, see `CallSettings`.

        Returns:
            The operation. With `wait` it has ended.

        Raises:
            InvalidArgumentError: Counts, sizes or types do not fit, or the communicator is closed.
            UnsupportedError: The type has no such reduction, or device memory without a `device`.
            HoringError: With `wait`: why the operation failed, also on another rank.
        """
        source, target = self._pair(send, recv)
        per_rank = self._counts(counts)
        _expect(source, sum(counts), "send")
        _expect(target, counts[self.rank], "recv")
        return self._collective(
            library().ho_reduce_scatter_counts, source, target, per_rank, settings, wait, op
        )

    def all_reduce(
        self,
        send: Any,
        recv: Any = None,
        op: ReduceOp = ReduceOp.SUM,
        *,
        wait: bool = True,
        **settings: Unpack[CallSettings],
    ) -> Request:
        """Reduces over all ranks, and every rank gets the result. All ranks call it.

        Args:
            send: n elements.
            recv: n elements of the same type, which are written; None: in place, into `send`.
            op: The reduction.
            wait: Whether to return when the result is there; False: at once, and both buffers stay
                as they are until the request has ended.
            **settings: Options of the call, see `CallSettings`.

        Returns:
            The operation. With `wait` it has ended.

        Raises:
            InvalidArgumentError: Sizes or types do not fit, memory that would be written is
                read-only, or the communicator is closed.
            UnsupportedError: The type has no such reduction, or device memory without a `device`.
            HoringError: With `wait`: why the operation failed, also on another rank.
        """
        source, target = self._pair(send, send if recv is None else recv)
        _expect(target, source.count, "recv")
        return self._collective(library().ho_all_reduce, source, target, source.count, settings, wait, op)

    def broadcast(
        self, data: Any, root: int = 0, *, wait: bool = True, **settings: Unpack[CallSettings]
    ) -> Request:
        """Every rank gets the root's elements, in place. All ranks call it.

        Args:
            data: n elements: read on the root, written elsewhere.
            root: The rank that has the data; the same on all ranks.
            wait: Whether to return when the result is there; False: at once, and the buffer stays
                as it is until the request has ended.
            **settings: Options of the call, see `CallSettings`.

        Returns:
            The operation. With `wait` it has ended.

        Raises:
            InvalidArgumentError: The memory is read-only (on the root too), or the communicator is
                closed.
            UnsupportedError: The element type, or device memory without a `device`.
            HoringError: With `wait`: why the operation failed, also on another rank.
        """
        both = buffer_of(data, writable=True, what="data")
        return self._collective(library().ho_broadcast, both, both, both.count, settings, wait, root)

    def all_to_all(self, send: Any, recv: Any, *, wait: bool = True, **settings: Unpack[CallSettings]) -> Request:
        """Block r of `send` goes to rank r, block r of `recv` comes from it. All ranks call it.

        Args:
            send: world_size * n elements, a block for each rank.
            recv: As many elements of the same type, which are written. Not in place.
            wait: Whether to return when the result is there; False: at once, and both buffers stay
                as they are until the request has ended.
            **settings: Options of the call, see `CallSettings`.

        Returns:
            The operation. With `wait` it has ended.

        Raises:
            InvalidArgumentError: Elements do not divide by the ranks, sizes or types do not fit, or
                the communicator is closed.
            UnsupportedError: The element type, or device memory without a `device`.
            HoringError: With `wait`: why the operation failed, also on another rank.
        """
        source, target = self._pair(send, recv)
        _expect(target, source.count, "recv")
        count, rest = divmod(source.count, self.world_size)
        if rest:
            raise InvalidArgumentError(
                f"send: {source.count} elements do not divide by {self.world_size} ranks"
            )
        return self._collective(library().ho_all_to_all, source, target, count, settings, wait)

    def all_to_all_counts(
        self,
        send: Any,
        send_counts: Sequence[int],
        recv: Any,
        recv_counts: Sequence[int],
        *,
        wait: bool = True,
        **settings: Unpack[CallSettings],
    ) -> Request:
        """As all_to_all, with a count of its own for each pair of ranks.

        Args:
            send: sum(send_counts) elements, one block after the other.
            send_counts: Elements that go to each rank, by rank.
            recv: sum(recv_counts) elements of the same type, which are written.
            recv_counts: Elements that come from each rank: what it has in its send_counts for this
                one.
            wait: Whether to return when the result is there; False: at once, and both buffers stay
                as they are until the request has ended.
            **settings: Options of the call, see `CallSettings`.

        Returns:
            The operation. With `wait` it has ended.

        Raises:
            InvalidArgumentError: Counts, sizes or types do not fit, or the communicator is closed.
            UnsupportedError: The element type, or device memory without a `device`.
            HoringError: With `wait`: why the operation failed; `MismatchError` where two ranks have
                different counts for what goes from one to the other.
        """
        source, target = self._pair(send, recv)
        to, back = self._counts(send_counts), self._counts(recv_counts)
        _expect(source, sum(send_counts), "send")
        _expect(target, sum(recv_counts), "recv")
        return self._start_call(
            library().ho_all_to_all_counts,
            (source.address, to, target.address, back, source.dtype),
            (source, target, to, back),
            settings,
            wait,
        )

    def gather(
        self, send: Any, recv: Any = None, root: int = 0, *, wait: bool = True, **settings: Unpack[CallSettings]
    ) -> Request:
        """The root gets the elements of all ranks, by rank. All ranks call it.

        Args:
            send: n elements.
            recv: On the root world_size * n elements of the same type, which are written; not
                looked at elsewhere.
            root: The rank that gets them; the same on all ranks.
            wait: Whether to return when this rank's part is over; False: at once, and both buffers
                stay as they are until the request has ended.
            **settings: Options of the call, see `CallSettings`.

        Returns:
            The operation. With `wait` it has ended.

        Raises:
            InvalidArgumentError: Sizes or types do not fit, or the communicator is closed.
            UnsupportedError: The element type, or device memory without a `device`.
            HoringError: With `wait`: why the operation failed, also on another rank.
        """
        source, target = self._rooted(send, recv, root)
        if target is not None:
            _expect(target, source.count * self.world_size, "recv")
        return self._collective(library().ho_gather, source, target, source.count, settings, wait, root)

    def scatter(
        self, send: Any, recv: Any, root: int = 0, *, wait: bool = True, **settings: Unpack[CallSettings]
    ) -> Request:
        """Every rank gets its block of the root's elements. All ranks call it.

        Args:
            send: On the root world_size * n elements, a block for each rank; not looked at
                elsewhere.
            recv: n elements of the same type, which are written.
            root: The rank that has the data; the same on all ranks.
            wait: Whether to return when this rank's part is over; False: at once, and both buffers
                stay as they are until the request has ended.
            **settings: Options of the call, see `CallSettings`.

        Returns:
            The operation. With `wait` it has ended.

        Raises:
            InvalidArgumentError: Sizes or types do not fit, or the communicator is closed.
            UnsupportedError: The element type, or device memory without a `device`.
            HoringError: With `wait`: why the operation failed, also on another rank.
        """
        target = buffer_of(recv, writable=True, what="recv")
        source = None
        if self.rank == root:
            source = buffer_of(send, writable=False, what="send")
            _expect(source, target.count * self.world_size, "send")
        return self._start_call(
            library().ho_scatter,
            (
                None if source is None else source.address,
                target.address,
                target.count,
                target.dtype,
                int32(root),
            ),
            (source, target),
            settings,
            wait,
        )

    def reduce(
        self,
        send: Any,
        recv: Any = None,
        op: ReduceOp = ReduceOp.SUM,
        root: int = 0,
        *,
        wait: bool = True,
        **settings: Unpack[CallSettings],
    ) -> Request:
        """Reduces over all ranks, and the root gets the result. All ranks call it.

        Args:
            send: n elements.
            recv: On the root n elements of the same type, which are written; not looked at
                elsewhere.
            op: The reduction.
            root: The rank that gets the result; the same on all ranks.
            wait: Whether to return when this rank's part is over; False: at once, and both buffers
                stay as they are until the request has ended.
            **settings: Options of the call, see `CallSettings`.

        Returns:
            The operation. With `wait` it has ended.

        Raises:
            InvalidArgumentError: Sizes or types do not fit, or the communicator is closed.
            UnsupportedError: The type has no such reduction, or device memory without a `device`.
            HoringError: With `wait`: why the operation failed, also on another rank.
        """
        source, target = self._rooted(send, recv, root)
        if target is not None:
            _expect(target, source.count, "recv")
        return self._collective(
            library().ho_reduce, source, target, source.count, settings, wait, op, root
        )

    def barrier(self, *, wait: bool = True, **settings: Unpack[CallSettings]) -> Request:
        """Ends when all ranks have called it.

        Args:
            wait: Whether to return only then; False: at once.
            **settings: Options of the call, see `CallSettings`.

        Returns:
            The operation. With `wait` it has ended.

        Raises:
            InvalidArgumentError: The communicator is closed.
            HoringError: With `wait`: why it failed. A `TimeoutError` names the ranks that have not
                come.
        """
        handle = ctypes.c_void_p()
        options = _options(settings, wait)
        library().ho_barrier(self.handle, ctypes.byref(options), ctypes.byref(handle))
        return self._request(handle, "barrier", (), wait)

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
        handle = ctypes.c_void_p()
        options = _options(settings, wait)
        library().ho_send(
            self.handle,
            what.address,
            what.count,
            what.dtype,
            int32(peer),
            int32(tag),
            ctypes.byref(options),
            ctypes.byref(handle),
        )
        return self._request(handle, "send", (what,), wait)

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
        into = _host_buffer(data, writable=True)
        handle, source = ctypes.c_void_p(), ctypes.c_int32(int32(peer))
        options = _options(settings, wait)
        library().ho_recv(
            self.handle,
            into.address,
            into.count,
            into.dtype,
            int32(peer),
            int32(tag),
            ctypes.byref(options),
            ctypes.byref(source),
            ctypes.byref(handle),
        )
        return self._request(handle, "recv", (into, source), wait, source)

    # --- what the calls share

    def _pair(self, send: Any, recv: Any) -> tuple[Buffer, Buffer]:
        if send is recv and isinstance(send, Buffer):
            return send, send
        source = buffer_of(send, writable=False, what="send")
        target = buffer_of(recv, writable=True, what="recv")
        if source.dtype != target.dtype:
            raise InvalidArgumentError(
                f"send has {source.dtype.name} elements, recv {target.dtype.name}"
            )
        return source, target

    def _rooted(self, send: Any, recv: Any, root: int) -> tuple[Buffer, Buffer | None]:
        if self.rank == root:
            return self._pair(send, recv)
        return buffer_of(send, writable=False, what="send"), None

    def _counts(self, counts: Sequence[int]) -> ctypes.Array[ctypes.c_size_t]:
        if len(counts) != self.world_size or any(each < 0 for each in counts):
            raise InvalidArgumentError(
                f"counts: one of 0 or more for each of {self.world_size} ranks, not {list(counts)}"
            )
        return (ctypes.c_size_t * len(counts))(*counts)

    def _collective(
        self,
        call: Callable[..., int],
        source: Buffer,
        target: Buffer | None,
        count: Any,
        settings: CallSettings,
        wait: bool,
        *more: int,
    ) -> Request:
        return self._start_call(
            call,
            (
                source.address,
                None if target is None else target.address,
                count,
                source.dtype,
                *map(int32, more),
            ),
            (source, target, count),
            settings,
            wait,
        )

    def _start_call(
        self,
        call: Callable[..., int],
        arguments: tuple[Any, ...],
        kept: tuple[Any, ...],
        settings: CallSettings,
        wait: bool,
    ) -> Request:
        handle = ctypes.c_void_p()
        report = OpReport(ctypes.sizeof(OpReport))
        on_device = self._on_device(kept)
        if on_device is not None:
            settings.setdefault("stream", on_device.current_stream)
        options = _options(settings, wait)
        call(
            self.handle,
            *arguments,
            ctypes.byref(options),
            ctypes.byref(report),
            ctypes.byref(handle),
        )
        request = self._request(handle, call.__name__.removeprefix("ho_"), (*kept, report), False)
        request.report = report
        request.device = None if on_device is None else on_device.device
        if wait and on_device is not None:
            request.join(options.stream or 0)
        elif wait:
            request.wait()
        return request

    def _on_device(self, kept: tuple[Any, ...]) -> Buffer | None:
        """A buffer of the call that is device memory, if there is one.

        Raises:
            UnsupportedError: The communicator was made without a device.
        """
        for each in kept:
            if isinstance(each, Buffer) and each.device is not None:
                if self._device == DEVICE_NONE:
                    raise UnsupportedError(
                        f"a buffer is memory of CUDA device {each.device}, and the communicator was made "
                        "without a device: Communicator(..., device=...)"
                    )
                return each
        return None

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

    def _request(
        self,
        handle: ctypes.c_void_p,
        what: str,
        kept: tuple[Any, ...],
        wait: bool,
        source: ctypes.c_int32 | None = None,
    ) -> Request:
        request = Request(Pending(handle.value, what, kept, self._open), self, source)
        # Two for each that is added: so those that have ended are soon gone.
        self._free_ended(2)
        if wait:
            request.wait()
        return request


def _options(settings: CallSettings, wait: bool) -> CallOptions:
    settings.setdefault("foreground", wait)
    return call_options(**settings)


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


def _expect(buffer: Buffer, count: int, what: str) -> None:
    if buffer.count != count:
        raise InvalidArgumentError(f"{what}: it has {buffer.count} elements, {count} are needed")


__all__ = ["Communicator", "DType", "Request"]
