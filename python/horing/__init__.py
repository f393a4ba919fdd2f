"""HO-Ring: collectives as hierarchical overlapping rings, over the C interface of libhoring.

    with horing.Communicator() as comm:      # ranks as torchrun, Slurm or horing run set them
        comm.all_reduce(array)               # numpy, bytearray, CPU tensors; in place

`import horing.torch` makes the same library a backend of torch.distributed.
"""

from __future__ import annotations

from horing._library import ANY_SOURCE, OpReport, library, library_path
from horing.buffers import Buffer
from horing.communicator import Communicator, JobPart, Request
from horing.errors import (
    AbortedError,
    ConnectionError,
    HoringError,
    InternalError,
    InvalidArgumentError,
    MismatchError,
    OperatingSystemError,
    OutOfMemoryError,
    PeerLostError,
    ProtocolError,
    TimeoutError,
    UnauthenticatedError,
    UnsupportedError,
)
from horing.plugin import nccl_plugin_path
from horing.requests import CallSettings
from horing.stores import Store
from horing.types import Algorithm, DType, ReduceOp


def version() -> str:
    """The version of libhoring, as "0.1.0". Loads the library.

    Returns:
        Major, minor and patch number with dots between.

    Raises:
        ImportError: No library was found, or one of another interface.
    """
    return str(library().ho_version().decode())


__all__ = [
    "ANY_SOURCE",
    "AbortedError",
    "Algorithm",
    "Buffer",
    "CallSettings",
    "Communicator",
    "ConnectionError",
    "DType",
    "HoringError",
    "InternalError",
    "InvalidArgumentError",
    "JobPart",
    "MismatchError",
    "OpReport",
    "OperatingSystemError",
    "OutOfMemoryError",
    "PeerLostError",
    "ProtocolError",
    "ReduceOp",
    "Request",
    "Store",
    "TimeoutError",
    "UnauthenticatedError",
    "UnsupportedError",
    "library_path",
    "nccl_plugin_path",
    "version",
]
