"""A communicator and its operations, as in horing.h, with Python's exceptions and memory."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Sequence
from typing import Any

from horing._library import (
    ANY_SOURCE,
    DEVICE_LOCAL_RANK,
    DEVICE_NONE,
    CommOptions,
    OpReport,
    int32,
    library,
)
from horing.buffers import Buffer, buffer_of
from horing.errors import InvalidArgumentError, UnsupportedError
from horing.lifetime import Lifetime
from horing.requests import Pending, Request, call_options, interruptible, milliseconds
from horing.stores import Store, callbacks_of
from horing.types import DType, ReduceOp


class Communicator(Lifetime):
    """Ranks that run collectives together. Making one is collective.

    Without arguments rank, world size and rendezvous come from the environment (torchrun's,
    Slurm's, Open MPI's or PMI's variables). One thread at a time, except abort().
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
        device: int | str | None = None,
    ):
        """`device`: the CUDA device whose memory calls may have, or "local_rank" for that of the local
        rank among the visible ones."""
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
        """Collective. Ranks of one color form a communicator, by key; None for a color below 0."""
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
        return int(library().ho_comm_rank(self.handle))

    @property
    def world_size(self) -> int:
        return int(library().ho_comm_world_size(self.handle))

    @property
    def group_count(self) -> int:
        return int(library().ho_comm_group_count(self.handle))

    @property
    def rail_count(self) -> int:
        return int(library().ho_comm_rail_count(self.handle))

    def group_of(self, rank: int) -> int:
        """Below 0 for a rank out of range."""
        return int(library().ho_comm_group_of(self.handle, int32(rank)))

    def group_rank_of(self, rank: int) -> int:
        return int(library().ho_comm_group_rank_of(self.handle, int32(rank)))

    def group_size(self, group: int) -> int:
        return int(library().ho_comm_group_size(self.handle, int32(group)))

    def rail_of(self, rank: int) -> int:
        """Below 0 for an extra rank, which has no rail of its own."""
        return int(library().ho_comm_rail_of(self.handle, int32(rank)))

    @property
    def device(self) -> int | None:
        """The number of the CUDA device whose memory its calls may have; None: host memory only."""
        number = int(library().ho_comm_device(self.handle))
        return None if number == DEVICE_NONE else number

    @property
    def memory_bytes(self) -> int:
        """What the library holds for it on this rank, now."""
        return int(library().ho_comm_memory_bytes(self.handle))

    # --- collectives. Each returns a Request; wait() on it, or use the call's `wait=True`, which is
    # the default. Shapes are horing.h's.

    def all_gather(self, send: Any, recv: Any, *, wait: bool = True, **settings: Any) -> Request:
        """recv has world_size times send's elements, by rank."""
        source, target = self._pair(send, recv)
        _expect(target, source.count * self.world_size, "recv")
        return self._collective("ho_all_gather", source, target, source.count, settings, wait)

    def all_gather_counts(
        self,
        send: Any,
        recv: Any,
        counts: Sequence[int],
        *,
        wait: bool = True,
        **settings: Any,
    ) -> Request:
        """counts[r] elements of rank r, the same on all ranks."""
        source, target = self._pair(send, recv)
        per_rank = self._counts(counts)
        _expect(source, counts[self.rank], "send")
        _expect(target, sum(counts), "recv")
        return self._collective("ho_all_gather_counts", source, target, per_rank, settings, wait)

    def reduce_scatter(
        self,
        send: Any,
        recv: Any,
        op: ReduceOp = ReduceOp.SUM,
        *,
        wait: bool = True,
        **settings: Any,
    ) -> Request:
        """send has world_size times recv's elements; recv gets this rank's part of the result."""
        source, target = self._pair(send, recv)
        _expect(source, target.count * self.world_size, "send")
        return self._collective(
            "ho_reduce_scatter", source, target, target.count, settings, wait, op
        )

    def reduce_scatter_counts(
        self,
        send: Any,
        recv: Any,
        counts: Sequence[int],
        op: ReduceOp = ReduceOp.SUM,
        *,
        wait: bool = True,
        **settings: Any,
    ) -> Request:
        """counts[r] elements for rank r, the same on all ranks."""
        source, target = self._pair(send, recv)
        per_rank = self._counts(counts)
        _expect(source, sum(counts), "send")
        _expect(target, counts[self.rank], "recv")
        return self._collective(
            "ho_reduce_scatter_counts", source, target, per_rank, settings, wait, op
        )

    def all_reduce(
        self,
        send: Any,
        recv: Any = None,
        op: ReduceOp = ReduceOp.SUM,
        *,
        wait: bool = True,
        **settings: Any,
    ) -> Request:
        """In place without recv."""
        source, target = self._pair(send, send if recv is None else recv)
        _expect(target, source.count, "recv")
        return self._collective("ho_all_reduce", source, target, source.count, settings, wait, op)

    def broadcast(
        self, data: Any, root: int = 0, *, wait: bool = True, **settings: Any
    ) -> Request:
        """In place: root's data on all ranks."""
        both = buffer_of(data, writable=True, what="data")
        return self._collective("ho_broadcast", both, both, both.count, settings, wait, root)

    def all_to_all(self, send: Any, recv: Any, *, wait: bool = True, **settings: Any) -> Request:
        """Block r of send goes to rank r, block r of recv comes from it. Not in place."""
        source, target = self._pair(send, recv)
        _expect(target, source.count, "recv")
        count, rest = divmod(source.count, self.world_size)
        if rest:
            raise InvalidArgumentError(
                f"send: {source.count} elements do not divide by {self.world_size} ranks"
            )
        return self._collective("ho_all_to_all", source, target, count, settings, wait)

    def all_to_all_counts(
        self,
        send: Any,
        send_counts: Sequence[int],
        recv: Any,
        recv_counts: Sequence[int],
        *,
        wait: bool = True,
        **settings: Any,
    ) -> Request:
        """send_counts[r] elements go to rank r, recv_counts[r] come from it."""
        source, target = self._pair(send, recv)
        to, back = self._counts(send_counts), self._counts(recv_counts)
        _expect(source, sum(send_counts), "send")
        _expect(target, sum(recv_counts), "recv")
        return self._start_call(
            "ho_all_to_all_counts",
            (source.address, to, target.address, back, source.dtype),
            (source, target, to, back),
            settings,
            wait,
        )

    def gather(
        self, send: Any, recv: Any = None, root: int = 0, *, wait: bool = True, **settings: Any
    ) -> Request:
        """recv on root only: world_size times send's elements, by rank."""
        source, target = self._rooted(send, recv, root)
        if target is not None:
            _expect(target, source.count * self.world_size, "recv")
        return self._collective("ho_gather", source, target, source.count, settings, wait, root)

    def scatter(
        self, send: Any, recv: Any, root: int = 0, *, wait: bool = True, **settings: Any
    ) -> Request:
        """send on root only: world_size times recv's elements, by rank."""
        target = buffer_of(recv, writable=True, what="recv")
        source = None
        if self.rank == root:
            source = buffer_of(send, writable=False, what="send")
            _expect(source, target.count * self.world_size, "send")
        return self._start_call(
            "ho_scatter",
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
        **settings: Any,
    ) -> Request:
        """recv on root only."""
        source, target = self._rooted(send, recv, root)
        if target is not None:
            _expect(target, source.count, "recv")
        return self._collective(
            "ho_reduce", source, target, source.count, settings, wait, op, root
        )

    def barrier(self, *, wait: bool = True, **settings: Any) -> Request:
        handle = ctypes.c_void_p()
        options = call_options(**{"foreground": wait, **settings})
        library().ho_barrier(self.handle, ctypes.byref(options), ctypes.byref(handle))
        return self._request(handle, "barrier", (), wait)

    # --- point to point

    def send(
        self, data: Any, peer: int, tag: int = 0, *, wait: bool = True, **settings: Any
    ) -> Request:
        what = _host_buffer(data, writable=False)
        handle = ctypes.c_void_p()
        options = call_options(**{"foreground": wait, **settings})
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
        **settings: Any,
    ) -> Request:
        """From `peer`, or from any rank; the request's `source` says whose message it was."""
        into = _host_buffer(data, writable=True)
        handle, source = ctypes.c_void_p(), ctypes.c_int32(int32(peer))
        options = call_options(**{"foreground": wait, **settings})
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
        name: str,
        source: Buffer,
        target: Buffer | None,
        count: Any,
        settings: dict[str, Any],
        wait: bool,
        *more: int,
    ) -> Request:
        return self._start_call(
            name,
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
        name: str,
        arguments: tuple[Any, ...],
        kept: tuple[Any, ...],
        settings: dict[str, Any],
        wait: bool,
    ) -> Request:
        handle = ctypes.c_void_p()
        report = OpReport(ctypes.sizeof(OpReport))
        on_device = self._on_device(kept)
        if on_device is not None:
            settings.setdefault("stream", on_device.current_stream)
        options = call_options(**{"foreground": wait, **settings})
        getattr(library(), name)(
            self.handle,
            *arguments,
            ctypes.byref(options),
            ctypes.byref(report),
            ctypes.byref(handle),
        )
        request = self._request(handle, name.removeprefix("ho_"), (*kept, report), False)
        request.report = report
        request.device = None if on_device is None else on_device.device
        if wait and on_device is not None:
            request.join(options.stream or 0)
        elif wait:
            request.wait()
        return request

    def _on_device(self, kept: tuple[Any, ...]) -> Buffer | None:
        """A buffer of the call that is device memory, if there is one."""
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
        """Pins host memory, so that calls may have it beside device memory. Slow: once."""
        what = buffer_of(memory, writable=False, what="memory")
        library().ho_comm_register(self.handle, what.address, what.count * what.dtype.itemsize)

    def deregister(self, memory: Any) -> None:
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
