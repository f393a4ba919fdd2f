"""Finds libhoring and declares its C interface (horing.h) to ctypes. Loaded on first use."""

from __future__ import annotations

import ctypes
import functools
import logging
import operator
import os
from ctypes import POINTER, c_char_p, c_double, c_int, c_int32, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import SupportsIndex

from horing.errors import HoringError, InvalidArgumentError, error_for

logger = logging.getLogger("horing")

# The interface that this package is written for: major and minor version of horing.h.
INTERFACE = "0.1"
IN_PROGRESS = 13
ANY_SOURCE = -1
DEVICE_NONE = -1
DEVICE_LOCAL_RANK = -2


class CommOptions(ctypes.Structure):
    """ho_comm_options of horing.h, field by field."""

    _fields_ = [
        ("size", c_size_t),
        ("rank", c_int32),
        ("world_size", c_int32),
        ("local_rank", c_int32),
        ("rendezvous", c_char_p),
        ("job_key", c_char_p),
        ("host_id", c_char_p),
        ("timeout_ms", c_uint64),
        ("store", c_void_p),
        ("rendezvous_timeout_ms", c_uint64),
        ("device", c_int32),
        ("rank_name", c_char_p),
        ("job", c_uint64),
        ("job_size", c_int32),
        ("job_ranks", POINTER(c_int32)),
        ("job_rank_count", c_size_t),
    ]


class CallOptions(ctypes.Structure):
    """ho_call_options of horing.h, field by field."""

    _fields_ = [
        ("size", c_size_t),
        ("algorithm", c_int),
        ("timeout_ms", c_uint64),
        ("fp32_sums", c_int32),
        ("scale", c_double),
        ("foreground", c_int32),
        ("stream", c_void_p),
        ("label", c_uint64),
    ]


class OpReport(ctypes.Structure):
    """What one operation moved and where its time went on this rank (ho_op_report).

    Attributes:
        algorithm: The `Algorithm` that carried it out, as its number.
        intra_sent_bytes: Payload that this rank sent inside its group.
        intra_received_bytes: Payload that this rank received inside its group.
        inter_sent_bytes: Payload that this rank sent to other groups.
        inter_received_bytes: Payload that this rank received from other groups.
        total_ns: From the call to its end, in nanoseconds, as all times here.
        inter_ns: While some message between groups was under way.
        intra_ns: Spent with moving or adding pieces inside the group.
        overlap_ns: The part of intra_ns that lies within inter_ns.
        wait_ns: Spent asleep.
    """

    _fields_ = [
        ("size", c_size_t),
        ("algorithm", c_int),
        ("intra_sent_bytes", c_uint64),
        ("intra_received_bytes", c_uint64),
        ("inter_sent_bytes", c_uint64),
        ("inter_received_bytes", c_uint64),
        ("total_ns", c_uint64),
        ("inter_ns", c_uint64),
        ("intra_ns", c_uint64),
        ("overlap_ns", c_uint64),
        ("wait_ns", c_uint64),
    ]


SET_CALLBACK = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_size_t)
WAIT_CALLBACK = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_uint64)
GET_CALLBACK = ctypes.CFUNCTYPE(
    c_int, c_void_p, c_char_p, c_void_p, c_size_t, POINTER(c_size_t)
)


class StoreCallbacks(ctypes.Structure):
    """ho_store of horing.h, field by field."""

    _fields_ = [
        ("size", c_size_t),
        ("context", c_void_p),
        ("name", c_char_p),
        ("set", SET_CALLBACK),
        ("wait", WAIT_CALLBACK),
        ("get", GET_CALLBACK),
    ]


def int32(value: SupportsIndex) -> int:
    """The number as it is, where C's int32_t can hold it.

    Args:
        value: A rank, tag, color, root or the like.

    Returns:
        The same number.

    Raises:
        InvalidArgumentError: C would cut it.
    """
    number = operator.index(value)
    if not -(2**31) <= number < 2**31:
        raise InvalidArgumentError(f"{number} does not fit into 32 bits")
    return number


_COMM = c_void_p
_BUFFER = c_void_p
_COUNTS = POINTER(c_size_t)
_DTYPE = c_int
_OP = c_int
_ROOT = c_int32
# What ends the arguments of every collective.
_END = [POINTER(CallOptions), POINTER(OpReport), POINTER(c_void_p)]

# Functions that answer an ho_status, which becomes an exception.
_CHECKED: dict[str, list[type]] = {
    "ho_comm_create": [POINTER(CommOptions), POINTER(_COMM)],
    "ho_comm_split": [_COMM, c_int32, c_int32, POINTER(_COMM)],
    "ho_comm_abort": [_COMM, c_char_p],
    "ho_all_gather": [_COMM, _BUFFER, _BUFFER, c_size_t, _DTYPE, *_END],
    "ho_all_gather_counts": [_COMM, _BUFFER, _BUFFER, _COUNTS, _DTYPE, *_END],
    "ho_reduce_scatter": [_COMM, _BUFFER, _BUFFER, c_size_t, _DTYPE, _OP, *_END],
    "ho_reduce_scatter_counts": [_COMM, _BUFFER, _BUFFER, _COUNTS, _DTYPE, _OP, *_END],
    "ho_all_reduce": [_COMM, _BUFFER, _BUFFER, c_size_t, _DTYPE, _OP, *_END],
    "ho_broadcast": [_COMM, _BUFFER, _BUFFER, c_size_t, _DTYPE, _ROOT, *_END],
    "ho_all_to_all": [_COMM, _BUFFER, _BUFFER, c_size_t, _DTYPE, *_END],
    "ho_all_to_all_counts": [_COMM, _BUFFER, _COUNTS, _BUFFER, _COUNTS, _DTYPE, *_END],
    "ho_gather": [_COMM, _BUFFER, _BUFFER, c_size_t, _DTYPE, _ROOT, *_END],
    "ho_scatter": [_COMM, _BUFFER, _BUFFER, c_size_t, _DTYPE, _ROOT, *_END],
    "ho_reduce": [_COMM, _BUFFER, _BUFFER, c_size_t, _DTYPE, _OP, _ROOT, *_END],
    "ho_barrier": [_COMM, POINTER(CallOptions), POINTER(c_void_p)],
    "ho_send": [
        _COMM, _BUFFER, c_size_t, _DTYPE, c_int32, c_int32, POINTER(CallOptions),
        POINTER(c_void_p),
    ],
    "ho_recv": [
        _COMM, _BUFFER, c_size_t, _DTYPE, c_int32, c_int32, POINTER(CallOptions),
        POINTER(c_int32), POINTER(c_void_p),
    ],
    "ho_request_test": [c_void_p, POINTER(c_int32)],
    "ho_comm_status": [_COMM],
    "ho_comm_left": [_COMM],
    "ho_comm_set_name": [_COMM, c_char_p, c_uint64],
    "ho_request_set_waiting": [c_void_p, c_int32],
    "ho_comm_register": [_COMM, c_void_p, c_size_t],
    "ho_comm_deregister": [_COMM, c_void_p],
}

_PLAIN: dict[str, tuple[type | None, list[type]]] = {
    "ho_version": (c_char_p, []),
    "ho_last_error_message": (c_char_p, []),
    "ho_set_last_error_message": (None, [c_char_p]),
    "ho_comm_destroy": (None, [_COMM]),
    "ho_comm_rank": (c_int32, [_COMM]),
    "ho_comm_world_size": (c_int32, [_COMM]),
    "ho_comm_group_count": (c_int32, [_COMM]),
    "ho_comm_rail_count": (c_int32, [_COMM]),
    "ho_comm_group_of": (c_int32, [_COMM, c_int32]),
    "ho_comm_group_rank_of": (c_int32, [_COMM, c_int32]),
    "ho_comm_group_size": (c_int32, [_COMM, c_int32]),
    "ho_comm_rail_of": (c_int32, [_COMM, c_int32]),
    "ho_comm_device": (c_int32, [_COMM]),
    "ho_comm_memory_bytes": (c_uint64, [_COMM]),
    # HO_IN_PROGRESS is no error, so the caller looks at the status.
    "ho_request_join": (c_int, [c_void_p, c_void_p, c_uint64]),
    "ho_request_wait": (c_int, [c_void_p, c_uint64]),
}


def library_path() -> Path:
    """The libhoring that this package uses: the one that came with it, or HORING_LIBRARY.

    Returns:
        A file that exists. It has not been loaded yet.

    Raises:
        ImportError: HORING_LIBRARY names no file, or the package is a source folder that has no
            library.
    """
    path = os.environ.get("HORING_LIBRARY")
    if path:
        if not os.path.exists(path):
            raise ImportError(f"HORING_LIBRARY={path}: there is no such file")
        return Path(path)
    own = Path(__file__).parent / "lib" / "libhoring.so.0"
    if own.exists():
        return own
    raise ImportError(
        f"{own} is missing: this is a source folder, or a broken installation. Install the "
        "package (pip install .), or set HORING_LIBRARY to a built libhoring.so.0"
    )


def _others_loaded(path: Path) -> list[str]:
    own = os.path.realpath(path)
    with open("/proc/self/maps") as maps:
        mapped = {line.split(maxsplit=5)[5].strip() for line in maps if "libhoring.so" in line}
    return sorted(each for each in mapped if os.path.realpath(each) != own)


@functools.cache
def library() -> ctypes.CDLL:
    """The loaded libhoring with its functions declared. Loads it once per process.

    Functions that answer an ho_status raise its exception, so that their result need not be looked
    at. Those that may answer HO_IN_PROGRESS (ho_request_wait, ho_request_join) are not among them.

    Returns:
        The library, the same one for each caller.

    Raises:
        ImportError: No library was found, or one of another interface than INTERFACE.
    """
    path = library_path()
    for other in _others_loaded(path):
        logger.warning("%s is loaded already; horing uses its own: %s", other, path)
    loaded = ctypes.CDLL(str(path))
    for name, (result, arguments) in _PLAIN.items():
        function = getattr(loaded, name)
        function.restype = result
        function.argtypes = arguments
    version = loaded.ho_version().decode()
    if not version.startswith(INTERFACE + "."):
        raise ImportError(f"{path} is HO-Ring {version}; this package needs {INTERFACE}.x")

    def check(status: int, function: object, arguments: object) -> int:
        if status != 0:
            raise_status(status)
        return status

    for name, arguments in _CHECKED.items():
        function = getattr(loaded, name)
        function.restype = c_int
        function.argtypes = arguments
        function.errcheck = check
    return loaded


def error_of(status: int) -> HoringError:
    """The exception for what failed last in this thread.

    Args:
        status: The ho_status that a call has just answered; not HO_OK.

    Returns:
        An exception with the text of ho_last_error_message(), not raised.
    """
    message = library().ho_last_error_message().decode(errors="replace")
    return error_for(status, message or f"status {status}")


def raise_status(status: int) -> None:
    """Raises the exception for what failed last in this thread.

    Args:
        status: The ho_status that a call has just answered; not HO_OK.

    Raises:
        HoringError: Always; the class is the status's own.
    """
    error = error_of(status)
    raise error
