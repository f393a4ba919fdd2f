"""The collectives of a communicator, as in horing.h."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from horing._library import library
from horing.buffers import buffer_of
from horing.calls import Blocks, Calls
from horing.requests import CallSettings, Request
from horing.types import ReduceOp

if TYPE_CHECKING:
    from typing_extensions import Unpack  # typing's begins with Python 3.11


class Collectives(Calls):
    """The part of a communicator that all ranks call together.

    Each call returns a Request; wait() on it, or use the call's `wait=True`, which is the default.
    Shapes are horing.h's.
    """

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
        return self._collective(library().ho_all_gather, Blocks.ONE_TO_ALL, send, recv, settings, wait)

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
        return self._collective(
            library().ho_all_gather_counts, Blocks.ONE_TO_ALL, send, recv, settings, wait, counts=counts
        )

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
        return self._collective(
            library().ho_reduce_scatter, Blocks.ALL_TO_ONE, send, recv, settings, wait, op
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
        return self._collective(
            library().ho_reduce_scatter_counts, Blocks.ALL_TO_ONE, send, recv, settings, wait, op, counts=counts
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
        return self._collective(
            library().ho_all_reduce, Blocks.ONE_TO_ONE, send, send if recv is None else recv, settings, wait, op
        )

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
        return self._collective(library().ho_broadcast, Blocks.ONE_TO_ONE, both, both, settings, wait, root)

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
        return self._collective(library().ho_all_to_all, Blocks.ALL_TO_ALL, send, recv, settings, wait)

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
        return self._collective_of_pairs(
            library().ho_all_to_all_counts, send, send_counts, recv, recv_counts, settings, wait
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
        return self._collective(
            library().ho_gather, Blocks.ONE_TO_ALL, send, self._on_root(recv, root), settings, wait, root
        )

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
        return self._collective(
            library().ho_scatter, Blocks.ALL_TO_ONE, self._on_root(send, root), recv, settings, wait, root
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
        return self._collective(
            library().ho_reduce, Blocks.ONE_TO_ONE, send, self._on_root(recv, root), settings, wait, op, root
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
        return self._without_memory(library().ho_barrier, settings, wait)
