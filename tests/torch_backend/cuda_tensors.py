"""Tensors of CUDA devices for tests: of torch's own where it has a GPU; else of the double of the CUDA
driver that the library under test holds (HORING_LIBRARY: libhoring_on_double.so).

Of the double, a tensor's memory is where nobody may touch it, and whatever torch does to it is a kernel
on the current stream, which the double runs when it pleases. Freed memory goes back to the stream that it
was taken for, and is taken again at once, as torch's allocator has it.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import glob
import itertools
import os
import threading
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed.tensor  # noqa: F401  (torch loads it for the first CudaTensor: once, before tests fork)
from torch.utils._pytree import tree_flatten, tree_unflatten

ON_DOUBLE = "horing_on_double" in os.environ.get("HORING_LIBRARY", "")
# Without asking CUDA: processes are forked later.
ON_GPU = torch.version.cuda is not None and bool(glob.glob("/dev/nvidia[0-9]*")) and not ON_DOUBLE


class _Range(ctypes.Structure):
    _fields_ = [("begin", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("writes", ctypes.c_int32)]


_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.POINTER(ctypes.c_void_p))


@functools.lru_cache(maxsize=1)
def _double() -> Any:
    library = ctypes.CDLL(os.environ["HORING_LIBRARY"])
    pointer, device = ctypes.c_void_p, ctypes.c_int
    for name, result, arguments in (
        ("allocate", ctypes.c_uint64, [device, ctypes.c_uint64]),
        ("make_stream", pointer, [device]),
        ("synchronize", None, [device, pointer]),
        ("make_event", pointer, [device]),
        ("record", None, [device, pointer, pointer]),
        ("passed", ctypes.c_int, [device, pointer]),
        ("wait", None, [device, pointer, pointer]),
        ("launch", None, [device, pointer, _KERNEL, ctypes.c_uint64, ctypes.POINTER(_Range), ctypes.c_uint64]),
        ("violation", ctypes.c_char_p, []),
    ):
        function = getattr(library, f"double_{name}")
        function.restype, function.argtypes = result, arguments
    return library


# --- streams and events, as torch.cuda has them


class Stream:
    def __init__(self, device: Any):
        self.ordinal = _ordinal(device)
        self.device = torch.device("cuda", self.ordinal)
        self.cuda_stream = _double().double_make_stream(self.ordinal)

    def wait_event(self, event: Event) -> None:
        if event.handle is not None:
            _double().double_wait(self.ordinal, self.cuda_stream, event.handle)

    def synchronize(self) -> None:
        _double().double_synchronize(self.ordinal, self.cuda_stream)


class Event:
    def __init__(self) -> None:
        self.handle: Any = None

    def record(self, stream: Stream) -> None:
        self.ordinal = stream.ordinal
        self.handle = self.handle or _double().double_make_event(self.ordinal)
        _double().double_record(self.ordinal, self.handle, stream.cuda_stream)

    def query(self) -> bool:
        return self.handle is None or bool(_double().double_passed(self.ordinal, self.handle))


class _PerThread(threading.local):
    def __init__(self) -> None:
        self.streams: dict[int, Stream] = {}


_current = _PerThread()


@functools.cache
def _default_stream(ordinal: int) -> Stream:
    return Stream(ordinal)


def _ordinal(device: Any) -> int:
    return device if isinstance(device, int) else torch.device(device).index or 0


def current_stream(device: Any) -> Stream:
    ordinal = _ordinal(device)
    return _current.streams.get(ordinal) or _default_stream(ordinal)


@contextlib.contextmanager
def _in_stream(stream: Stream | None) -> Iterator[None]:
    if stream is None:
        yield
        return
    before = _current.streams.get(stream.ordinal)
    _current.streams[stream.ordinal] = stream
    try:
        yield
    finally:
        if before is None:
            del _current.streams[stream.ordinal]
        else:
            _current.streams[stream.ordinal] = before


# --- memory


_freed: dict[tuple[int, int, int], list[int]] = collections.defaultdict(list)


class _Storage:
    """Taken for the current stream."""

    def __init__(self, ordinal: int, size: int):
        self.ordinal, self.size = ordinal, max(size, 1)
        self.is_of_other_streams = False
        self._pool = _freed[ordinal, self.size, current_stream(ordinal).cuda_stream]
        self.address = (
            self._pool.pop() if self._pool else _double().double_allocate(ordinal, self.size)
        )

    def __del__(self) -> None:
        if not self.is_of_other_streams:
            self._pool.append(self.address)

    def data_ptr(self) -> int:
        return self.address


# --- kernels: what waits for the double to run it, by number

_numbers = itertools.count(1)
_waiting: dict[int, Any] = {}


@_KERNEL
def _run_kernel(number: int, indices: Any) -> None:
    _waiting.pop(number)(indices)


class CudaTensor(torch.Tensor):
    """Of the double. torch sees a tensor without memory, of the device `meta`."""

    _storage: _Storage
    _shape_only: torch.Tensor

    @staticmethod
    def __new__(cls, shape_only: torch.Tensor, storage: _Storage) -> CudaTensor:
        made = torch.Tensor._make_wrapper_subclass(
            cls, shape_only.shape, strides=shape_only.stride(),
            storage_offset=shape_only.storage_offset(), dtype=shape_only.dtype, device="meta",
        )
        made._storage, made._shape_only = storage, shape_only
        return made

    @property
    def device(self) -> torch.device:
        return torch.device("cuda", self._storage.ordinal)

    def data_ptr(self) -> int:
        return self._storage.address + self.storage_offset() * self.element_size()

    def untyped_storage(self) -> Any:
        return self._storage

    def record_stream(self, stream: Any) -> None:
        """torch takes it again when that stream is through; here nobody does."""
        self._storage.is_of_other_streams = True

    def __repr__(self, **_: Any) -> str:
        return f"CudaTensor({tuple(self.shape)}, {self.dtype}, {self.device})"

    def range(self, writes: bool) -> _Range:
        span = sum((size - 1) * step for size, step in zip(self.shape, self.stride(), strict=True)) + 1
        return _Range(self.data_ptr(), span * self.element_size() if self.numel() else 0, writes)

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, input: Any = (), named: Any = None) -> Any:
        flat, spec = tree_flatten((input, named or {}))
        if any(isinstance(each, CudaTensor) and each.layout != torch.strided for each in flat):
            raise NotImplementedError(function)
        if function is torch.ops.aten.copy_.default and not isinstance(input[0], CudaTensor):
            return input[0].copy_(_to_host(input[1]))
        if function is torch.ops.aten._to_copy.default and (named or {}).get("device") is not None:
            others = {key: value for key, value in named.items() if key not in ("device", "non_blocking")}
            return torch.ops.aten._to_copy.default(_to_host(input[0]), **others)
        tensors = [each for each in flat if isinstance(each, CudaTensor)]
        without_memory = [each._shape_only if isinstance(each, CudaTensor) else _moved(each) for each in flat]
        arguments, keywords = tree_unflatten(without_memory, spec)
        shape_only = function(*arguments, **keywords)
        if function._schema.name.split("::")[1].rstrip("_") != function._schema.name.split("::")[1]:
            _launch(function, flat, spec, tensors, tensors[:1])
            return input[0]
        if function.is_view or function is torch.ops.aten.detach.default:
            return CudaTensor(shape_only, tensors[0]._storage)
        made = new(shape_only, tensors[0].device)
        if function.overloadpacket is not torch.ops.aten.empty_like:
            _launch(function, flat, spec, [*tensors, made], [made])
        return made


def _moved(each: Any) -> Any:
    """An argument of the host, where only shapes are asked for."""
    return each.to("meta") if isinstance(each, torch.Tensor) else each


def new(shape_only: torch.Tensor, device: Any) -> CudaTensor:
    span = sum(
        (size - 1) * step for size, step in zip(shape_only.shape, shape_only.stride(), strict=True)
    ) + 1
    return CudaTensor(shape_only, _Storage(_ordinal(device), span * shape_only.element_size()))


def _launch(function: Any, flat: list[Any], spec: Any, tensors: list[CudaTensor], written: list[CudaTensor]) -> None:
    """Arguments of the host are as they are now: the driver takes them along."""
    flat = [
        each.clone() if isinstance(each, torch.Tensor) and not isinstance(each, CudaTensor) else each
        for each in flat
    ]
    made = tensors[-1] if tensors[-1] is written[0] and not any(tensors[-1] is each for each in flat) else None
    views = [(each.range(any(each is one for one in written)), each) for each in tensors]
    # Only layouts are kept: memory is the caller's to free as soon as the kernel is on the stream.
    layouts = {id(each): (each.shape, each.stride(), each.dtype, view.bytes) for view, each in views}
    order = [id(each) for each in tensors]
    arguments = [id(each) if isinstance(each, CudaTensor) else each for each in flat]
    is_tensor = [isinstance(each, CudaTensor) for each in flat]
    result_id = None if made is None else id(made)

    def run(indices: Any) -> None:
        real = {each: _view(indices[at], *layouts[each]) for at, each in enumerate(order)}
        values = [real[each] if is_one else each for each, is_one in zip(arguments, is_tensor, strict=True)]
        with torch.no_grad():
            positional, keywords = tree_unflatten(values, spec)
            result = function(*positional, **keywords)
            if result_id is not None:
                real[result_id].copy_(result)

    _enqueue(run, tensors[0]._storage.ordinal, [view for view, _ in views])


def _enqueue(kernel: Any, ordinal: int, ranges: list[_Range]) -> None:
    number = next(_numbers)
    _waiting[number] = kernel
    _double().double_launch(
        ordinal, current_stream(ordinal).cuda_stream, _run_kernel, number,
        (_Range * len(ranges))(*ranges), len(ranges),
    )


def _view(at_index: int, shape: Any, strides: Any, dtype: torch.dtype, span: int) -> torch.Tensor:
    if span == 0:
        return torch.empty(shape, dtype=dtype)
    flat = torch.frombuffer((ctypes.c_char * span).from_address(at_index), dtype=torch.uint8)
    return flat.view(dtype).as_strided(shape, strides)


def _to_host(tensor: Any) -> torch.Tensor:
    """Waits for the current stream, as torch does."""
    if not isinstance(tensor, CudaTensor):
        return tensor
    result: list[torch.Tensor] = []
    read = tensor.range(False)
    layout = (tensor.shape, tensor.stride(), tensor.dtype, read.bytes)
    ordinal = tensor._storage.ordinal
    _enqueue(lambda indices: result.append(_view(indices[0], *layout).clone()), ordinal, [read])
    current_stream(ordinal).synchronize()
    return result[0]


_empty_on_host = torch.empty


def _empty(*shape: Any, **named: Any) -> torch.Tensor:
    device = named.get("device")
    if device is None or torch.device(device).type != "cuda":
        return _empty_on_host(*shape, **named)
    return new(_empty_on_host(*shape, **{**named, "device": "meta"}), device)


# --- for tests


def tensor(values: Any, device: int = 0) -> torch.Tensor:
    host = values if isinstance(values, torch.Tensor) else torch.tensor(values)
    if ON_GPU:
        return host.to(f"cuda:{device}")
    made = new(host.to("meta").contiguous(), device)
    made.copy_(host)
    return made


@contextlib.contextmanager
def devices() -> Iterator[None]:
    """Within it torch.cuda works. Raises what the double has found wrong."""
    if ON_GPU:
        yield
        torch.cuda.synchronize()
        return
    from horing.torch.work import DeviceOperation

    torch.cuda.current_stream, torch.cuda.stream = current_stream, _in_stream
    torch.cuda.Stream, torch.cuda.Event = Stream, Event
    # torch has none with devices unless it has CUDA.
    DeviceOperation._make_event = lambda _: torch.futures.Future()
    torch.empty = _empty
    yield
    violation = _double().double_violation().decode()
    if violation:
        raise AssertionError(violation)
