"""What all operations of a communicator share: checks of their memory, the C call, the request."""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Callable, Sequence
from typing import Any

from horing._library import DEVICE_NONE, CallOptions, OpReport, int32, library
from horing.buffers import Buffer, buffer_of
from horing.errors import InvalidArgumentError, UnsupportedError
from horing.lifetime import Lifetime
from horing.requests import CallSettings, Pending, Request, call_options
from horing.types import DType

# In place of memory that only the root has.
_ELSEWHERE = Buffer(0, 0, DType.UINT8, None)


class Blocks(enum.Enum):
    """How many blocks of a collective `send` and `recv` have: one, or one for each rank."""

    ONE_TO_ONE = enum.auto()
    ONE_TO_ALL = enum.auto()
    ALL_TO_ONE = enum.auto()
    ALL_TO_ALL = enum.auto()


class Calls(Lifetime):
    """The part of a communicator that checks memory and starts operations; `Communicator` adds their names."""

    @property
    def rank(self) -> int:
        """This rank's number in the communicator, from 0."""
        return int(library().ho_comm_rank(self.handle))

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return int(library().ho_comm_world_size(self.handle))

    def _on_root(self, memory: Any, root: int) -> Any:
        return memory if self.rank == root else _ELSEWHERE

    def _collective(
        self,
        call: Callable[..., int],
        blocks: Blocks,
        send: Any,
        recv: Any,
        settings: CallSettings,
        wait: bool,
        *more: int,
        counts: Sequence[int] | None = None,
    ) -> Request:
        """A collective with the elements of a block, or with `counts` of them, one for each rank.

        `more` is what the C call takes after the type: reduction, root.
        """
        source, target = self._pair(send, recv)
        count: Any
        if counts is None:
            count = self._block_count(blocks, source, target)
        else:
            count = self._counts(counts)
            from_all = blocks is Blocks.ALL_TO_ONE
            _expect(source, sum(counts) if from_all else counts[self.rank], "send")
            _expect(target, counts[self.rank] if from_all else sum(counts), "recv")
        dtype = target.dtype if source is _ELSEWHERE else source.dtype
        arguments = (source.address, target.address, count, dtype, *map(int32, more))
        return self._start_call(call, arguments, (source, target, count), settings, wait)

    def _collective_of_pairs(
        self,
        call: Callable[..., int],
        send: Any,
        send_counts: Sequence[int],
        recv: Any,
        recv_counts: Sequence[int],
        settings: CallSettings,
        wait: bool,
    ) -> Request:
        """A collective with a count for each rank in both directions."""
        source, target = self._pair(send, recv)
        to, back = self._counts(send_counts), self._counts(recv_counts)
        _expect(source, sum(send_counts), "send")
        _expect(target, sum(recv_counts), "recv")
        arguments = (source.address, to, target.address, back, source.dtype)
        return self._start_call(call, arguments, (source, target, to, back), settings, wait)

    def _without_memory(self, call: Callable[..., int], settings: CallSettings, wait: bool) -> Request:
        handle = ctypes.c_void_p()
        options = _options(settings, wait)
        call(self.handle, ctypes.byref(options), ctypes.byref(handle))
        return self._request(handle, call, (), wait)

    def _message(
        self,
        call: Callable[..., int],
        memory: Buffer,
        peer: int,
        tag: int,
        settings: CallSettings,
        wait: bool,
        source: ctypes.c_int32 | None = None,
    ) -> Request:
        """A send, or a receive with `source`, where its sender is written."""
        handle = ctypes.c_void_p()
        options = _options(settings, wait)
        ends = [ctypes.byref(options), ctypes.byref(handle)]
        if source is not None:
            ends.insert(1, ctypes.byref(source))
        call(self.handle, memory.address, memory.count, memory.dtype, int32(peer), int32(tag), *ends)
        return self._request(handle, call, (memory, source), wait, source)

    def _pair(self, send: Any, recv: Any) -> tuple[Buffer, Buffer]:
        if send is recv and isinstance(send, Buffer):
            return send, send
        source = buffer_of(send, writable=False, what="send")
        target = buffer_of(recv, writable=True, what="recv")
        if source.dtype != target.dtype and source is not _ELSEWHERE and target is not _ELSEWHERE:
            raise InvalidArgumentError(
                f"send has {source.dtype.name} elements, recv {target.dtype.name}"
            )
        return source, target

    def _block_count(self, blocks: Blocks, source: Buffer, target: Buffer) -> int:
        """Elements of a block.

        Raises:
            InvalidArgumentError: The two buffers do not have blocks of one size.
        """
        count = source.count
        if blocks is Blocks.ONE_TO_ONE:
            _expect(target, count, "recv")
            return count
        ranks = self.world_size
        if blocks is Blocks.ONE_TO_ALL:
            _expect(target, count * ranks, "recv")
            return count
        if blocks is Blocks.ALL_TO_ONE:
            _expect(source, target.count * ranks, "send")
            return target.count
        _expect(target, count, "recv")
        count, rest = divmod(count, ranks)
        if rest:
            raise InvalidArgumentError(
                f"send: {source.count} elements do not divide by {ranks} ranks"
            )
        return count

    def _counts(self, counts: Sequence[int]) -> ctypes.Array[ctypes.c_size_t]:
        if len(counts) != self.world_size or any(each < 0 for each in counts):
            raise InvalidArgumentError(
                f"counts: one of 0 or more for each of {self.world_size} ranks, not {list(counts)}"
            )
        return (ctypes.c_size_t * len(counts))(*counts)

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
        request = self._request(handle, call, (*kept, report), False)
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

    def _request(
        self,
        handle: ctypes.c_void_p,
        call: Callable[..., int],
        kept: tuple[Any, ...],
        wait: bool,
        source: ctypes.c_int32 | None = None,
    ) -> Request:
        what = call.__name__.removeprefix("ho_")
        request = Request(Pending(handle.value, what, kept, self._open), self, source)
        # Two for each that is added: so those that have ended are soon gone.
        self._free_ended(2)
        if wait:
            request.wait()
        return request


def _options(settings: CallSettings, wait: bool) -> CallOptions:
    settings.setdefault("foreground", wait)
    return call_options(**settings)


def _expect(buffer: Buffer, count: int, what: str) -> None:
    if buffer.count != count and buffer is not _ELSEWHERE:
        raise InvalidArgumentError(f"{what}: it has {buffer.count} elements, {count} are needed")
