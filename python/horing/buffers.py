"""Memory of the caller as the C interface wants it: address, element count and type.

numpy arrays and everything else with the buffer protocol (bytearray, array.array, memoryview), and
everything that exports DLPack on the CPU or a CUDA device (torch, jax, cupy). Never copies.
"""

from __future__ import annotations

import ctypes
import dataclasses
import sys
from typing import Any

from horing.errors import InvalidArgumentError, UnsupportedError
from horing.types import DType


@dataclasses.dataclass(slots=True)
class Buffer:
    """Contiguous elements of the caller's memory, as the C interface takes them.

    Nobody writes to it: one is made for each call, and a frozen class takes three times as long to
    make.

    Attributes:
        address: Where the first element lies.
        count: Number of elements.
        dtype: Type of each element.
        owner: Keeps the memory alive as long as the buffer lives.
        device: Number of the CUDA device whose memory it is; None for memory of the host.
    """

    address: int
    count: int
    dtype: DType
    owner: Any
    device: int | None = None  # the CUDA device whose memory it is

    @property
    def current_stream(self) -> int:
        """Address of torch's current CUDA stream for a torch tensor; 0, the default stream, for all else."""
        tensor = self.owner[0] if isinstance(self.owner, tuple) else self.owner
        if self.device is None or not _is_of_torch(tensor):
            return 0
        return int(sys.modules["torch"].cuda.current_stream(self.device).cuda_stream)


def _is_of_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


# struct's format characters (native sizes) by kind and bytes.
_BY_FORMAT = {
    "b": DType.INT8,
    "B": DType.UINT8,
    "c": DType.UINT8,
    "h": DType.INT16,
    "H": DType.UINT16,
    "?": DType.BOOL,
    "e": DType.FLOAT16,
    "f": DType.FLOAT32,
    "d": DType.FLOAT64,
    "Zf": DType.COMPLEX64,
    "Zd": DType.COMPLEX128,
}
_INTEGERS = {
    ("i", 4): DType.INT32,
    ("i", 8): DType.INT64,
    ("u", 4): DType.UINT32,
    ("u", 8): DType.UINT64,
}
_SIGNED = "ilqn"
_UNSIGNED = "ILQN"

# (type code, bits) of DLPack.
_BY_DLPACK = {
    (0, 8): DType.INT8,
    (0, 16): DType.INT16,
    (0, 32): DType.INT32,
    (0, 64): DType.INT64,
    (1, 8): DType.UINT8,
    (1, 16): DType.UINT16,
    (1, 32): DType.UINT32,
    (1, 64): DType.UINT64,
    (2, 16): DType.FLOAT16,
    (2, 32): DType.FLOAT32,
    (2, 64): DType.FLOAT64,
    (4, 16): DType.BFLOAT16,
    (5, 64): DType.COMPLEX64,
    (5, 128): DType.COMPLEX128,
    (6, 8): DType.BOOL,
    (10, 8): DType.FLOAT8_E4M3,
    (12, 8): DType.FLOAT8_E5M2,
}
_DLPACK_CPU = 1
_DLPACK_CUDA = 2
_DLPACK_TAKEN = (_DLPACK_CPU, _DLPACK_CUDA, 3)  # 3: page-locked memory of the host
# Streams of DLPack. torch's tensors are used on torch's own stream, where they are ready. Other
# producers (jax, cupy) make the default stream wait for what they have under way: calls use it.
_NO_ORDER = -1
_DEFAULT_STREAM = 1  # CUDA's legacy one, which C calls NULL


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("type_code", ctypes.c_uint8),
        ("type_bits", ctypes.c_uint8),
        ("type_lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


class _PyBuffer(ctypes.Structure):
    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)),
        ("internal", ctypes.c_void_p),
    ]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_PyBuffer)]


def buffer_of(value: Any, *, writable: bool, what: str) -> Buffer:
    """The memory of a value, without a copy.

    Args:
        value: A `Buffer`, what has the buffer protocol (numpy array, bytearray, array.array), or
            what exports DLPack on the CPU or a CUDA device (torch, jax, cupy). Any shape;
            contiguous.
        writable: Whether the call will write to it.
        what: Its name in errors, as "send" or "recv".

    Returns:
        Address, element count and type. It keeps the value alive.

    Raises:
        InvalidArgumentError: It has no memory to work on, is not contiguous, or is read-only and
            would be written.
        UnsupportedError: Its element type or its device is one that horing does not move.
    """
    if isinstance(value, Buffer):
        return value
    try:
        view = memoryview(value)
    except (TypeError, ValueError, BufferError):  # numpy has no buffer format for some types
        if hasattr(value, "__dlpack__"):
            return _from_dlpack(value, what)
        raise InvalidArgumentError(
            f"{what}: {type(value).__name__} has neither the buffer protocol nor DLPack; pass a "
            "numpy array, a bytearray, an array.array or a tensor"
        ) from None
    return _from_view(view, writable, what)


def _from_view(view: memoryview, writable: bool, what: str) -> Buffer:
    if not view.c_contiguous:
        raise InvalidArgumentError(
            f"{what}: its elements do not lie one after the other; pass a contiguous copy"
        )
    if writable and view.readonly:
        raise InvalidArgumentError(f"{what}: it is read-only and would be written")
    return Buffer(_address(view), view.nbytes // view.itemsize, _dtype_of(view, what), view)


def _dtype_of(view: memoryview, what: str) -> DType:
    code = view.format.lstrip("@=<")  # "<" is what this machine has
    kind = "i" if code in _SIGNED else "u" if code in _UNSIGNED else ""
    dtype = _BY_FORMAT.get(code, _INTEGERS.get((kind, view.itemsize)))
    if dtype is None:
        raise UnsupportedError(f"{what}: no element type for the buffer format {view.format!r}")
    return dtype


def _address(view: memoryview) -> int:
    got = _PyBuffer()
    _get_buffer(view, ctypes.byref(got), 0)
    address = got.buf or 0
    _release_buffer(ctypes.byref(got))
    return address


def _from_dlpack(value: Any, what: str) -> Buffer:
    try:
        kind, ordinal = value.__dlpack_device__()
    except (BufferError, RuntimeError, ValueError) as error:
        raise InvalidArgumentError(f"{what}: it has no memory to work on ({error})") from error
    if kind not in _DLPACK_TAKEN:
        raise UnsupportedError(
            f"{what}: it is in memory of a device of DLPack's type {kind}; horing moves memory of the "
            "host and of CUDA devices"
        )
    on_cuda = kind == _DLPACK_CUDA
    try:
        stream = _NO_ORDER if _is_of_torch(value) else _DEFAULT_STREAM
        capsule = value.__dlpack__(stream=stream) if on_cuda else value.__dlpack__()
    except (BufferError, RuntimeError, TypeError) as error:
        raise InvalidArgumentError(
            f"{what}: it does not export its memory ({error}); pass a detached, writable array"
        ) from error
    if getattr(value, "is_neg", bool)():  # torch exports the memory under a view that negates
        raise InvalidArgumentError(f"{what}: a view that negates; pass value.resolve_neg()")
    tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    count, expected, contiguous = 1, 1, True
    for axis in reversed(range(tensor.ndim)):
        size = tensor.shape[axis]
        if tensor.strides and size > 1 and tensor.strides[axis] != expected:
            contiguous = False
        expected *= size
        count *= size
    if not contiguous:
        raise InvalidArgumentError(
            f"{what}: its elements do not lie one after the other; pass a contiguous copy"
        )
    dtype = _BY_DLPACK.get((tensor.type_code, tensor.type_bits))
    if dtype is None or tensor.type_lanes != 1:
        raise UnsupportedError(
            f"{what}: no element type for DLPack's type {tensor.type_code} of "
            f"{tensor.type_bits} bits"
        )
    address = (tensor.data or 0) + tensor.byte_offset
    return Buffer(address, count, dtype, (value, capsule), int(ordinal) if on_cuda else None)
