"""Exceptions, one class per status of the C interface (ho_status in horing.h)."""

from __future__ import annotations

import builtins


class HoringError(RuntimeError):
    """An operation failed. The text names what failed, where, and what to do next.

    Attributes:
        status: The ho_status of horing.h that the class stands for.
    """

    status = 12  # HO_INTERNAL


class InvalidArgumentError(HoringError, ValueError):
    """An argument or an environment variable is wrong. Nothing was sent."""

    status = 1


class MismatchError(HoringError):
    """Ranks called different things, or the same thing with different arguments."""

    status = 2


class TimeoutError(HoringError, builtins.TimeoutError):
    """A deadline has passed. The text names the ranks that are waited for, where they are known."""

    status = 3


class AbortedError(HoringError):
    """Some rank called abort(), or left with an exception. The text has its reason."""

    status = 4


class PeerLostError(HoringError):
    """The process of a rank is gone. The text names it."""

    status = 5


class ConnectionError(HoringError, builtins.ConnectionError):
    """A connection could not be made, or broke."""

    status = 6


class UnauthenticatedError(HoringError):
    """Somebody who connected does not have the job's key."""

    status = 7


class ProtocolError(HoringError):
    """A peer sent what no rank of this version sends."""

    status = 8


class UnsupportedError(HoringError, NotImplementedError):
    """The library does not do this, or not on this machine. The text says what to do instead."""

    status = 9


class OperatingSystemError(HoringError, OSError):
    """A call of the operating system failed. The text has its name and error."""

    status = 10


class OutOfMemoryError(HoringError, MemoryError):
    """Memory or shared memory could not be had."""

    status = 11


class InternalError(HoringError):
    """A fault of the library itself."""

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
    """The exception for a status.

    Args:
        status: An ho_status of horing.h that is not HO_OK.
        message: The exception's text.

    Returns:
        An exception of the status's own class, not raised; `InternalError` for a number that is
        none.
    """
    return _BY_STATUS.get(status, InternalError)(message)
