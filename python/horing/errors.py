"""Exceptions, one class per status of the C interface (ho_status in horing.h)."""

from __future__ import annotations

import builtins


class HoringError(RuntimeError):
    """An operation failed. The text names what failed, where, and what to do next."""

    status = 12  # HO_INTERNAL


class InvalidArgumentError(HoringError, ValueError):
    status = 1


class MismatchError(HoringError):
    """Ranks called different things, or the same thing with different arguments."""

    status = 2


class TimeoutError(HoringError, builtins.TimeoutError):  # noqa: A001  (both names are caught)
    status = 3


class AbortedError(HoringError):
    status = 4


class PeerLostError(HoringError):
    status = 5


class ConnectionError(HoringError, builtins.ConnectionError):  # noqa: A001
    status = 6


class UnauthenticatedError(HoringError):
    status = 7


class ProtocolError(HoringError):
    status = 8


class UnsupportedError(HoringError, NotImplementedError):
    status = 9


class OperatingSystemError(HoringError, OSError):
    status = 10


class OutOfMemoryError(HoringError, MemoryError):
    status = 11


class InternalError(HoringError):
    status = 12


_BY_STATUS: dict[int, type[HoringError]] = {
    each.status: each
    for each in (
        InvalidArgumentError,
        MismatchError,
        TimeoutError,
        AbortedError,
        PeerLostError,
        ConnectionError,
        UnauthenticatedError,
        ProtocolError,
        UnsupportedError,
        OperatingSystemError,
        OutOfMemoryError,
        InternalError,
    )
}


def error_for(status: int, message: str) -> HoringError:
    """The exception for a status that is not HO_OK."""
    return _BY_STATUS.get(status, InternalError)(message)
