"""Tensors as memory that libhoring can work on.

In place where a tensor is contiguous, else through one copy. What is done to tensors of a CUDA
device is done on their current stream.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence

import torch

from horing.buffers import Buffer
from horing.types import DType, ReduceOp

_DTYPES = {
    torch.int8: DType.INT8,
    torch.uint8: DType.UINT8,
    torch.int16: DType.INT16,
    torch.uint16: DType.UINT16,
    torch.int32: DType.INT32,
    torch.uint32: DType.UINT32,
    torch.int64: DType.INT64,
    torch.uint64: DType.UINT64,
    torch.float16: DType.FLOAT16,
    torch.bfloat16: DType.BFLOAT16,
    torch.float32: DType.FLOAT32,
    torch.float64: DType.FLOAT64,
    torch.float8_e4m3fn: DType.FLOAT8_E4M3,
    torch.float8_e5m2: DType.FLOAT8_E5M2,
    torch.bool: DType.BOOL,
    torch.complex64: DType.COMPLEX64,
    torch.complex128: DType.COMPLEX128,
}

# Sums of booleans are "any", products "all".
_BOOLEAN_OPS = {
    ReduceOp.SUM: ReduceOp.BOR,
    ReduceOp.MAX: ReduceOp.BOR,
    ReduceOp.PROD: ReduceOp.BAND,
    ReduceOp.MIN: ReduceOp.BAND,
}


def check(tensor: torch.Tensor, what: str) -> torch.Tensor:
    """A dense tensor of the host or of a CUDA device.

    Args:
        tensor: What the caller gave.
        what: The call, for errors.

    Returns:
        The same memory, detached.

    Raises:
        ValueError: It is sparse or on another kind of device. The text says what to do.
    """
    if tensor.device.type not in ("cpu", "cuda"):
        raise ValueError(
            f"{what}: the tensor is on {tensor.device}, and the horing backend moves tensors of the CPU "
            "and of CUDA devices"
        )
    if tensor.layout != torch.strided:
        raise ValueError(f"{what}: {tensor.layout} tensors are not supported; pass a dense one")
    return tensor.detach()


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor's memory has its elements, one after the other.

    Args:
        tensor: Any tensor.

    Returns:
        False for views that negate or conjugate, and for those that are not contiguous.
    """
    return tensor.is_contiguous() and not tensor.is_neg() and not tensor.is_conj()


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor whose memory has its elements.

    Args:
        tensor: Any tensor.

    Returns:
        The tensor itself where it is plain, else a copy.
    """
    return tensor.resolve_conj().resolve_neg().contiguous()


def buffer_of(tensor: torch.Tensor) -> Buffer:
    """The memory of a plain tensor.

    Args:
        tensor: A plain tensor. One of a type that horing does not know is moved as bytes.

    Returns:
        The buffer, which keeps the tensor alive.
    """
    device = tensor.device.index if tensor.device.type == "cuda" else None
    dtype = _DTYPES.get(tensor.dtype)
    if dtype is None:
        # Any other type is moved as bytes; Reduction refuses it.
        count = tensor.numel() * tensor.element_size()
        return Buffer(tensor.data_ptr(), count, DType.UINT8, tensor, device)
    return Buffer(tensor.data_ptr(), tensor.numel(), dtype, tensor, device)


def check_one_device(tensors: Sequence[torch.Tensor], what: str) -> None:
    """Checks that tensors are on one device.

    Args:
        tensors: What one call has.
        what: The call, for errors.

    Raises:
        ValueError: They are on several.
    """
    devices = {str(each.device) for each in tensors}
    if len(devices) > 1:
        raise ValueError(f"{what}: tensors of one device, not of {sorted(devices)}")


def device_of(arguments: Sequence[object], what: str) -> int | None:
    """The CUDA device of all buffers among a call's arguments.

    Args:
        arguments: Of any kind.
        what: The call, for errors.

    Returns:
        The device's number; None: the host.

    Raises:
        ValueError: They are on several devices.
    """
    buffers = [each for each in arguments if isinstance(each, Buffer)]
    if not buffers:
        return None
    device = buffers[0].device
    for each in buffers:
        if each.device != device:
            names = sorted({_device_name(one.device) for one in buffers})
            raise ValueError(f"{what}: tensors of one device, not of {names}")
    return device


def _device_name(device: int | None) -> str:
    return "cpu" if device is None else f"cuda:{device}"


def copy_back(to: torch.Tensor, copy: torch.Tensor) -> None:
    """Copies a result on the current stream.

    That need not be the stream that the memory was taken for: it is not taken again before this
    stream is through.

    Args:
        to: Where the result belongs.
        copy: Where it is, of the same shape.
    """
    to.copy_(copy)
    if to.device.type == "cuda":
        stream = torch.cuda.current_stream(to.device)
        to.record_stream(stream)
        copy.record_stream(stream)


class Output:
    """Where a result goes: the tensor's own memory, or a copy that finish() brings back.

    Args:
        tensor: The caller's tensor.
        keeps: Whether what is in the tensor is read as well.
    """

    def __init__(self, tensor: torch.Tensor, *, keeps: bool = False):
        self.tensor = tensor
        self.direct = is_plain(tensor)
        if self.direct:
            self.memory = tensor
        else:
            self.memory = plain(tensor) if keeps else torch.empty(
                tensor.shape, dtype=tensor.dtype, device=tensor.device
            )

    def finish(self) -> None:
        """Brings the result into the tensor, where it is not there already."""
        if not self.direct:
            copy_back(self.tensor, self.memory)


class Received:
    """Where a message goes, which is host memory: the tensor's own, or a copy.

    Args:
        tensor: The caller's tensor.
    """

    def __init__(self, tensor: torch.Tensor):
        self.tensor = tensor
        on_host = tensor.device.type == "cpu"
        self.stream = None if on_host else torch.cuda.current_stream(tensor.device)
        self.direct = on_host and is_plain(tensor)
        self.memory = tensor if self.direct else torch.empty(tensor.shape, dtype=tensor.dtype)

    def finish(self) -> None:
        """Brings the message into the tensor: on a device at the end of the stream of the call."""
        if self.direct:
            return
        with contextlib.nullcontext() if self.stream is None else torch.cuda.stream(self.stream):
            self.tensor.copy_(self.memory)


def joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """One flat tensor over several, where they lie one after the other.

    Args:
        tensors: Of one type and device.

    Returns:
        A view of all their elements; None where they lie otherwise.
    """
    if not tensors or not all(is_plain(each) for each in tensors):
        return None
    end = tensors[0].data_ptr()
    storage = tensors[0].untyped_storage().data_ptr()
    for each in tensors:
        if each.data_ptr() != end or each.untyped_storage().data_ptr() != storage:
            return None
        end += each.numel() * each.element_size()
    total = sum(each.numel() for each in tensors)
    return tensors[0].as_strided((total,), (1,), tensors[0].storage_offset())


class Outputs:
    """Several results, one after the other in one flat tensor.

    Args:
        tensors: The caller's tensors, of one type and device.
    """

    def __init__(self, tensors: Sequence[torch.Tensor]):
        self.tensors = tensors
        flat = joined(tensors)
        self.direct = flat is not None
        self.memory = (
            flat
            if flat is not None
            else torch.empty(
                sum(each.numel() for each in tensors),
                dtype=tensors[0].dtype,
                device=tensors[0].device,
            )
        )

    def finish(self) -> None:
        """Brings the results into the tensors, where they are not there already."""
        if self.direct:
            return
        offset = 0
        for each in self.tensors:
            copy_back(each, self.memory[offset : offset + each.numel()].view(each.shape))
            offset += each.numel()


def flattened(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """The elements of several tensors, one after the other.

    Args:
        tensors: Of one type and device.

    Returns:
        A flat tensor: their own memory where it is so, else a copy.
    """
    flat = joined(tensors)
    return flat if flat is not None else torch.cat([each.reshape(-1) for each in tensors])


class Reduction:
    """How a tensor of any type is reduced: as what, by which operation, and what then.

    Its `tensor` is what libhoring reduces in place of the caller's, by its `op`.

    Args:
        tensor: The caller's tensor.
        op: The caller's reduction.
        scale: Factor of PREMUL_SUM.

    Raises:
        ValueError: The type has no such reduction.
    """

    def __init__(
        self, tensor: torch.Tensor, op: ReduceOp, scale: float
    ):
        self.op, self.scale = op, scale
        self._after: list[Callable[[], None]] = []
        if tensor.is_complex():
            if op not in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PREMUL_SUM):
                raise ValueError(f"{op.name} of complex numbers is not supported; SUM and AVG are")
            tensor = torch.view_as_real(tensor)
        elif tensor.dtype == torch.bool:
            self.op = _BOOLEAN_OPS.get(op, op)
            tensor = tensor.view(torch.uint8)
        elif tensor.dtype in (torch.int16, torch.uint16):
            self._after.append(functools.partial(copy_back, tensor, wide := tensor.to(torch.int32)))
            tensor = wide
        elif tensor.dtype not in _DTYPES:
            raise ValueError(f"{op.name} of {tensor.dtype} is not supported; reduce a wider type")
        output = Output(tensor, keeps=True)
        if not output.direct:
            self._after.insert(0, output.finish)
        self.tensor = output.memory

    def finish(self) -> None:
        """Puts the values where they belong."""
        for step in self._after:
            step()

