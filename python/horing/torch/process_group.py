"""The process group: every call of torch.distributed as an operation of libhoring."""

from __future__ import annotations

import functools
import hashlib
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Literal, get_args

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from horing.communicator import Communicator
from horing.errors import HoringError
from horing.program_exit import GRACE_S, ends_with_program
from horing.requests import Request, run_for
from horing.torch import tensors as memory
from horing.torch.arguments import (
    TorchStore,
    batches_of,
    expect_equal,
    list_of,
    one_of,
    options_of,
    reduce_op,
    split_counts,
)
from horing.torch.causes import knows, why_to_end
from horing.torch.identity import Identity
from horing.torch.work import (
    Completer,
    DeviceOperation,
    Operation,
    OwnThread,
    Traffic,
    Work,
    distributed_error,
)

# Whose operations end in their order, and in which memory they work.
Channel = Literal["all_gather", "reduce_scatter", "other"]
Place = Literal["host", "device"]

_CLOSE_SECONDS = 2.0  # how long shutdown waits for operations that nobody has waited for


def _operation(method: Callable[..., Any]) -> Callable[..., Any]:
    """Failures of the library become torch's errors, with the call's name."""

    @functools.wraps(method)
    def called(self: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return method(self, *arguments, **named)
        except HoringError as error:
            raise distributed_error(error, method.__name__, self) from error

    return called


class ProcessGroup(Identity):
    """A group over communicators of its own: one for tensors of the host, one for those of a CUDA device.

    The second is made in the first call with a tensor of a device, which all ranks make together.

    Any thread may call it; calls of one group go out in the order in which its lock was taken, so
    threads that share a group must agree on an order across ranks, as with every backend. Calls
    return a `Work` at once. Their argument errors are ValueError, failures of the library
    `torch.distributed.DistBackendError`, here or in the work's wait().

    Args:
        store: The group's key-value store, in which its ranks meet.
        rank: This rank's number in the group.
        size: Ranks of the group.
        timeout: Deadline of meeting, and of each operation.
        communicator: One that is ready, as of split_group(); None: makes one, and waits for all
            ranks.
        global_ranks: The job's numbers of its ranks, by group rank; empty: the same.

    Raises:
        torch.distributed.DistBackendError: Not all ranks have come in time, or they do not fit
            together.
    """

    def __init__(
        self,
        store: c10d.Store,
        rank: int,
        size: int,
        timeout: timedelta,
        *,
        communicator: Communicator | None = None,
        global_ranks: Sequence[int] = (),
    ):
        super().__init__(store, rank, size, timeout)
        self._global_ranks = self._met_ranks = list(global_ranks) or self._global_ranks
        self._splits = 0
        self._lock = threading.RLock()
        self._coalesced = threading.local()  # .operations: since _start_coalescing()
        self._own_thread = OwnThread()
        self._completers: dict[tuple[Channel, Place], Completer] = {
            (channel, place): Completer(f"horing {place} {channel}")
            for channel in get_args(Channel)
            for place in get_args(Place)
        }
        self._traffic = Traffic()
        if communicator is None:
            what = f"making a group of {size} ranks (all of them with this backend)"
            communicator = self._make_communicator(what, None)
        self._communicators: dict[Place, Communicator] | None = {"host": communicator}
        self._shut_down: list[Communicator] = []
        self._end_in_time(communicator)
        knows(self)
        ends_with_program(self)

    def _make_communicator(self, what: str, device: int | None) -> Communicator:
        local_rank = os.environ.get("LOCAL_RANK", "")
        seconds = self._timeout.total_seconds()
        try:
            return Communicator(
                self._rank,
                self._world_size,
                local_rank=int(local_rank) if local_rank.isdecimal() else None,
                timeout=seconds,
                rendezvous_timeout=seconds,
                store=TorchStore(self._store) if self._world_size > 1 else None,
                store_name=None if device is None else "horing on devices",
                device=device,
            )
        except HoringError as error:
            raise distributed_error(error, what, None) from error

    def _end_in_time(self, communicator: Communicator) -> None:
        """Ends its waits for what another group or the host's communicator knows to be in vain."""
        this = weakref.ref(self)

        def why() -> str | None:
            group = this()
            if group is None or group._communicators is None:
                return None
            host = group._communicators["host"]
            if host is not communicator:
                try:
                    host.status()
                except HoringError as error:
                    return str(error)
            return why_to_end(group)

        communicator.end_when(why)

    def _named(self) -> None:
        for place, communicator in (self._communicators or {}).items():
            told = repr((self._name, self._desc, self._global_ranks, place)).encode()
            number = int.from_bytes(hashlib.blake2b(told, digest_size=8).digest(), "little")
            communicator.set_name(self.short_name, number or 1)

    def _communicator_of(self, device: int | None) -> Communicator:
        if device is None:
            return self.communicator
        self.communicator.status()  # what has ended the host's, an abort of a parent too, ends both
        if self._communicators is not None and "device" not in self._communicators:
            what = f"the first call of {self!r} with memory of a device (on all ranks together)"
            made = self._make_communicator(what, device)
            self._communicators["device"] = made
            self._end_in_time(made)
            self._named()
        return self._communicator("device")

    def eager_connect_single_device(self, device: torch.device) -> None:
        """Connects for tensors of a device now instead of in the first call.

        For `device_id=` of init_process_group and new_group. All ranks call it.

        Args:
            device: The device; nothing is done for the CPU.

        Raises:
            torch.distributed.DistBackendError: Not all ranks have come in time, or there is no
                driver.
        """
        if device.type == "cuda":
            with self._lock:
                self._communicator_of(device.index)

    @property
    def communicator(self) -> Communicator:
        """The one for tensors of the host. Raises `DistBackendError` once the group was shut down."""
        return self._communicator("host")

    def _communicator(self, place: Place) -> Communicator:
        if self._communicators is None:
            raise dist.DistBackendError(f"horing: {self!r} was shut down")
        return self._communicators[place]

    @property
    def traffic(self) -> Traffic:
        """What this rank's collectives have moved, as far as they have ended."""
        self._traffic.add_ended()
        return self._traffic

    # --- its life

    def abort(self, reason: str | None = None) -> None:
        """Ends every wait on every rank of the group, with the reason. Any thread may call it.

        Args:
            reason: What the errors of all ranks say; None: that the group was aborted.

        Raises:
            HoringError: A communicator was closed meanwhile.
        """
        for communicator in list((self._communicators or {}).values()):
            communicator.abort(reason or f"{self.described()} was aborted")

    def shutdown(self) -> None:
        """Closes the group. Waits two seconds at most for operations that nobody has waited for.

        What has not ended by then goes on in a thread until its deadline, or until the program
        ends.
        """
        with self._lock:
            communicators, self._communicators = self._communicators, None
        if communicators is not None:
            self._shut_down = list(communicators.values())
            # What no peer matches may last until its deadline. It does not hold up the program.
            run_for(_CLOSE_SECONDS, self._end)

    def _end(self) -> None:
        for completer in self._completers.values():
            completer.close()
        for communicator in self._shut_down:
            communicator.close()

    def end_with_program(self, until: float) -> None:
        """Ends what is open, also of a group that was shut down, when the program exits.

        Args:
            until: When to give up and abort, a time of time.monotonic().
        """
        for communicator in [*(self._communicators or {}).values(), *self._shut_down]:
            communicator.end_with_program(until)
        # No thread of ours is inside torch when Python ends.
        for completer in self._completers.values():
            completer.close(GRACE_S)

    def split_group(
        self,
        new_ranks: list[int],
        timeout: timedelta | None = None,
        opts: Any = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        device_types: Any = None,
    ) -> ProcessGroup | None:
        """Makes a group of some of the ranks. Collective over this group.

        Args:
            new_ranks: Ranks of this group; the same on all ranks of the new one.
            timeout: Deadline of its operations; None: this group's.
            opts: torch's argument; not looked at.
            group_name: Its name; None: one made of this group's.
            group_desc: What it is for; None: made of this group's.
            device_types: torch's argument; not looked at.

        Returns:
            The new group, without a rendezvous of its own; None on ranks that are not in it.

        Raises:
            ValueError: There are no such ranks.
            torch.distributed.DistBackendError: A rank did not come or could not make its part.
        """
        wanted = sorted(set(new_ranks))
        if not wanted or wanted[0] < 0 or wanted[-1] >= self._world_size:
            raise ValueError(
                f"split_group: ranks {list(new_ranks)} of a group of {self._world_size} ranks"
            )
        member = self._rank in wanted
        with self._lock:
            self._splits += 1
            name = group_name or f"{self._name}:split:{self._splits}"
            # Ranks of one new group, and no others, agree on its lowest rank.
            try:
                made = self.communicator.split(wanted[0] if member else -1, self._rank)
            except HoringError as error:
                failure = distributed_error(error, "split_group", self)
                raise failure from error
        if made is None:
            return None
        group = ProcessGroup(
            c10d.PrefixStore(f"{name}/", self._store),
            made.rank,
            made.world_size,
            timeout or self._timeout,
            communicator=made,
            global_ranks=[self._global_ranks[each] for each in wanted],
        )
        group._met_ranks = self._met_ranks
        group._set_group_name(name)
        group._set_group_desc(group_desc or f"{self._desc}:split:{self._splits}")
        return group

    splitGroup = split_group

    # --- collectives

    @_operation
    def allreduce(self, given: Any, opts: Any = None, timeout: Any = None) -> Work:
        """Reduces a tensor over all ranks, in place.

        Args:
            given: A tensor, or a list of one, of the same shape on all ranks.
            opts: torch's AllreduceOptions, a reduction, or None for SUM.
            timeout: The call's deadline, where it is not in `opts`.

        Returns:
            The work, whose result is the tensor.
        """
        opts = options_of(opts, c10d.AllreduceOptions, timeout)
        tensor = one_of(given, "all_reduce")
        return self._all_reduce("all_reduce", [tensor], opts)

    @_operation
    def allreduce_coalesced(self, given: Sequence[torch.Tensor], opts: Any = None) -> Work:
        """Reduces several tensors over all ranks, in place. Small ones go through one operation.

        Args:
            given: Tensors of the same shapes on all ranks.
            opts: torch's AllreduceCoalescedOptions, or None for SUM.

        Returns:
            The work for all of them.
        """
        opts = options_of(opts, c10d.AllreduceCoalescedOptions)
        tensors = [memory.check(each, "all_reduce_coalesced") for each in given]
        return self._all_reduce("all_reduce_coalesced", tensors, opts)

    def _all_reduce(self, what: str, given: list[torch.Tensor], opts: Any) -> Work:
        op, scale = reduce_op(opts.reduceOp)
        requests, after = [], []
        for batch in batches_of(given):
            target = memory.Outputs(batch) if len(batch) > 1 else None
            whole = batch[0]
            if target is not None:
                whole = target.memory
                if not target.direct:
                    torch.cat([each.reshape(-1) for each in batch], out=whole)
            reduction = memory.Reduction(whole, op, scale)
            data = memory.buffer_of(reduction.tensor)
            requests.append(
                self._call(opts, Communicator.all_reduce, data, data, op=reduction.op, scale=scale)
            )
            after.append(reduction.finish)
            if target is not None:
                after.append(target.finish)
        return self._work(what, requests, given, after)

    @_operation
    def reduce(self, given: Any, opts: Any = None, op: Any = None, timeout: Any = None) -> Work:
        """Reduces a tensor over all ranks, into the root's tensor.

        Args:
            given: A tensor, or a list of one, of the same shape on all ranks. Only the root's is
                written.
            opts: torch's ReduceOptions, or the root's rank.
            op: The reduction, where it is not in `opts`; None: SUM.
            timeout: The call's deadline, where it is not in `opts`.

        Returns:
            The work, whose result is the tensor.
        """
        if isinstance(opts, int):
            root, opts = opts, options_of(None, c10d.ReduceOptions, timeout)
            opts.rootRank = root
            opts.reduceOp = dist.ReduceOp.SUM if op is None else op
        opts = options_of(opts, c10d.ReduceOptions)
        tensor = one_of(given, "reduce")
        ours, scale = reduce_op(opts.reduceOp)
        reduction = memory.Reduction(tensor, ours, scale)
        data = memory.buffer_of(reduction.tensor)
        on_root = opts.rootRank == self._rank
        request = self._call(
            opts, Communicator.reduce, data, data if on_root else None, op=reduction.op, root=opts.rootRank,
            scale=scale,
        )
        return self._work("reduce", [request], [tensor], [reduction.finish] if on_root else [])

    @_operation
    def broadcast(self, given: Any, opts: Any = None, timeout: Any = None) -> Work:
        """Copies the root's tensor to all ranks, in place.

        Args:
            given: A tensor, or a list of one, of the same shape on all ranks.
            opts: torch's BroadcastOptions, or the root's rank.
            timeout: The call's deadline, where it is not in `opts`.

        Returns:
            The work, whose result is the tensor.
        """
        if isinstance(opts, int):
            root, opts = opts, options_of(None, c10d.BroadcastOptions, timeout)
            opts.rootRank = root
        opts = options_of(opts, c10d.BroadcastOptions)
        tensor = one_of(given, "broadcast")
        output = memory.Output(tensor, keeps=True)
        request = self._call(opts, Communicator.broadcast, memory.buffer_of(output.memory), opts.rootRank)
        return self._work("broadcast", [request], [tensor], [output.finish])

    @_operation
    def allgather(self, outputs: Any, given: Any, opts: Any = None) -> Work:
        """Copies each rank's tensor into a list of all ranks' tensors.

        Args:
            outputs: A tensor for each rank, or a list of one such list. Sizes may differ by rank.
            given: This rank's tensor, or a list of one.
            opts: torch's AllgatherOptions, or None.

        Returns:
            The work, whose result are the outputs.
        """
        opts = options_of(opts, c10d.AllgatherOptions)
        tensor = one_of(given, "all_gather")
        targets = list_of(outputs, "all_gather")
        return self._all_gather("all_gather", [(targets, tensor)], opts)

    @_operation
    def allgather_coalesced(
        self, outputs: Sequence[Sequence[torch.Tensor]], given: Sequence[torch.Tensor], opts: Any = None
    ) -> Work:
        """As allgather, for several tensors.

        Args:
            outputs: outputs[r] are the tensors of rank r.
            given: This rank's tensors.
            opts: torch's AllgatherOptions, or None.

        Returns:
            The work for all of them.
        """
        opts = options_of(opts, c10d.AllgatherOptions)
        pairs = [
            (
                [memory.check(of_rank[index], "all_gather_coalesced") for of_rank in outputs],
                memory.check(tensor, "all_gather_coalesced"),
            )
            for index, tensor in enumerate(given)
        ]
        return self._all_gather("all_gather_coalesced", pairs, opts)

    @_operation
    def all_gather_single(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> Work:
        """Copies each rank's tensor into one tensor, by rank.

        Args:
            output: world_size times the elements of `given`.
            given: This rank's tensor.
            opts: torch's AllgatherOptions, or None.

        Returns:
            The work, whose result is the output.
        """
        opts = options_of(opts, c10d.AllgatherOptions)
        return self._all_gather_flat("all_gather_single", [(output, given)], opts)

    _allgather_base = all_gather_single

    @_operation
    def all_gather_single_coalesced(
        self, outputs: Sequence[torch.Tensor], given: Sequence[torch.Tensor], opts: Any = None
    ) -> Work:
        """As all_gather_single, for several pairs of tensors.

        Args:
            outputs: Each has world_size times the elements of its input.
            given: This rank's tensors.
            opts: torch's AllgatherOptions, or None.

        Returns:
            The work for all of them.
        """
        opts = options_of(opts, c10d.AllgatherOptions)
        pairs = list(zip(outputs, given, strict=True))
        return self._all_gather_flat("all_gather_single_coalesced", pairs, opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def _all_gather_flat(
        self, what: str, pairs: Sequence[tuple[torch.Tensor, torch.Tensor]], opts: Any
    ) -> Work:
        requests, after, result = [], [], []
        for output, given in pairs:
            source = memory.buffer_of(memory.plain(memory.check(given, what)))
            target = memory.Output(memory.check(output, what))
            requests.append(
                self._call(opts, Communicator.all_gather, source, memory.buffer_of(target.memory))
            )
            after.append(target.finish)
            result.append(output)
        return self._work(what, requests, result, after, "all_gather")

    def _all_gather(
        self, what: str, pairs: Sequence[tuple[list[torch.Tensor], torch.Tensor]], opts: Any
    ) -> Work:
        requests, after, result = [], [], []
        for targets, given in pairs:
            memory.check_one_device([given, *targets], what)
            source = memory.buffer_of(memory.plain(given))
            output = memory.Outputs(targets)
            into = memory.buffer_of(output.memory)
            counts = [memory.buffer_of(each).count for each in targets]
            if all(count == source.count for count in counts):
                requests.append(self._call(opts, Communicator.all_gather, source, into))
            else:
                requests.append(self._call(opts, Communicator.all_gather_counts, source, into, counts))
            after.append(output.finish)
            result.extend(targets)
        return self._work(what, requests, result, after, "all_gather")

    @_operation
    def reduce_scatter(self, outputs: Any, given: Any, opts: Any = None, timeout: Any = None) -> Work:
        """Reduces a list over all ranks and leaves each rank its part.

        Args:
            outputs: This rank's tensor, or a list of one.
            given: A tensor for each rank, or a list of one such list. Sizes may differ by rank.
            opts: torch's ReduceScatterOptions, a reduction, or None for SUM.
            timeout: The call's deadline, where it is not in `opts`.

        Returns:
            The work, whose result is the output.
        """
        opts = options_of(opts, c10d.ReduceScatterOptions, timeout)
        output = one_of(outputs, "reduce_scatter")
        parts = list_of(given, "reduce_scatter")
        counts = [each.numel() for each in parts]
        return self._reduce_scatter(
            "reduce_scatter", [(output, memory.flattened(parts), counts)], opts
        )

    @_operation
    def reduce_scatter_single(
        self, output: torch.Tensor, given: torch.Tensor, opts: Any = None
    ) -> Work:
        """Reduces one tensor over all ranks and leaves each rank its part.

        Args:
            output: This rank's part.
            given: world_size times the elements of `output`.
            opts: torch's ReduceScatterOptions, or None for SUM.

        Returns:
            The work, whose result is the output.
        """
        opts = options_of(opts, c10d.ReduceScatterOptions)
        return self._reduce_scatter(
            "reduce_scatter_single", [(output, memory.check(given, "reduce_scatter"), None)], opts
        )

    _reduce_scatter_base = reduce_scatter_single

    @_operation
    def reduce_scatter_single_coalesced(
        self, outputs: Sequence[torch.Tensor], given: Sequence[torch.Tensor], opts: Any = None
    ) -> Work:
        """As reduce_scatter_single, for several pairs of tensors.

        Args:
            outputs: This rank's parts.
            given: Each has world_size times the elements of its output.
            opts: torch's ReduceScatterOptions, or None for SUM.

        Returns:
            The work for all of them.
        """
        opts = options_of(opts, c10d.ReduceScatterOptions)
        what = "reduce_scatter_single_coalesced"
        triples = [
            (output, memory.check(tensor, what), None)
            for output, tensor in zip(outputs, given, strict=True)
        ]
        return self._reduce_scatter(what, triples, opts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _reduce_scatter(
        self,
        what: str,
        triples: Sequence[tuple[torch.Tensor, torch.Tensor, list[int] | None]],
        opts: Any,
    ) -> Work:
        op, scale = reduce_op(opts.reduceOp)
        requests, after, result = [], [], []
        for output, given, counts in triples:
            source = memory.Reduction(memory.plain(given), op, scale)
            target = memory.Reduction(memory.check(output, what), op, scale)
            ends = (memory.buffer_of(source.tensor), memory.buffer_of(target.tensor))
            if counts is None or all(count == counts[0] for count in counts):
                requests.append(
                    self._call(opts, Communicator.reduce_scatter, *ends, op=source.op, scale=scale)
                )
            else:
                scaled = [count * ends[0].count // sum(counts) for count in counts]
                requests.append(
                    self._call(
                        opts, Communicator.reduce_scatter_counts, *ends, scaled, op=source.op, scale=scale
                    )
                )
            after.append(target.finish)
            result.append(output)
        return self._work(what, requests, result, after, "reduce_scatter")

    @_operation
    def gather(self, outputs: Any, given: Any, opts: Any = None) -> Work:
        """Copies each rank's tensor to the root's list.

        Args:
            outputs: On the root a tensor for each rank, or a list of one such list; else empty.
            given: This rank's tensor, or a list of one, of as many elements on all ranks.
            opts: torch's GatherOptions, which has the root; None: rank 0.

        Returns:
            The work, whose result are the root's outputs.
        """
        opts = options_of(opts, c10d.GatherOptions)
        tensor = one_of(given, "gather")
        on_root = opts.rootRank == self._rank
        targets = list_of(outputs, "gather") if on_root else []
        if on_root:
            expect_equal("gather", targets, tensor, self._world_size)
        output = memory.Outputs(targets) if on_root else None
        request = self._call(
            opts,
            Communicator.gather,
            memory.buffer_of(memory.plain(tensor)),
            None if output is None else memory.buffer_of(output.memory),
            opts.rootRank,
        )
        return self._work(
            "gather", [request], targets, [output.finish] if output is not None else []
        )

    @_operation
    def gather_single(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> Work:
        """Copies each rank's tensor into one tensor of the root, by rank.

        Args:
            output: On the root world_size times the elements of `given`; not looked at elsewhere.
            given: This rank's tensor.
            opts: torch's GatherOptions, which has the root; None: rank 0.

        Returns:
            The work, whose result is the root's output.
        """
        opts = options_of(opts, c10d.GatherOptions)
        source = memory.plain(memory.check(given, "gather_single"))
        if opts.rootRank != self._rank:
            request = self._call(opts, Communicator.gather, memory.buffer_of(source), None, opts.rootRank)
            return self._work("gather_single", [request], [], [])
        target = memory.Output(memory.check(output, "gather_single"))
        request = self._call(
            opts, Communicator.gather, memory.buffer_of(source), memory.buffer_of(target.memory), opts.rootRank
        )
        return self._work("gather_single", [request], [output], [target.finish])

    gather_into_tensor = gather_single

    @_operation
    def scatter(self, outputs: Any, given: Any, opts: Any = None) -> Work:
        """Copies the tensors of the root's list to the ranks.

        Args:
            outputs: This rank's tensor, or a list of one.
            given: On the root a tensor for each rank, or a list of one such list; else empty.
            opts: torch's ScatterOptions, which has the root; None: rank 0.

        Returns:
            The work, whose result is this rank's tensor.
        """
        opts = options_of(opts, c10d.ScatterOptions)
        tensor = one_of(outputs, "scatter")
        output = memory.Output(tensor)
        source = None
        if opts.rootRank == self._rank:
            parts = list_of(given, "scatter")
            expect_equal("scatter", parts, tensor, self._world_size)
            source = memory.buffer_of(memory.flattened(parts))
        request = self._call(
            opts, Communicator.scatter, source, memory.buffer_of(output.memory), opts.rootRank
        )
        return self._work("scatter", [request], [tensor], [output.finish])

    @_operation
    def alltoall(self, outputs: Any, given: Any, opts: Any = None) -> Work:
        """Sends a tensor to each rank and receives one from each. Sizes may differ.

        Args:
            outputs: A tensor from each rank.
            given: A tensor for each rank.
            opts: torch's AllToAllOptions, or None.

        Returns:
            The work, whose result are the outputs.
        """
        opts = options_of(opts, c10d.AllToAllOptions)
        sources, targets = list_of(given, "all_to_all"), list_of(outputs, "all_to_all")
        output = memory.Outputs(targets)
        return self._all_to_all(
            "all_to_all",
            memory.buffer_of(memory.flattened(sources)),
            [memory.buffer_of(each).count for each in sources],
            memory.buffer_of(output.memory),
            [memory.buffer_of(each).count for each in targets],
            opts,
            targets,
            output.finish,
        )

    @_operation
    def all_to_all_single(
        self,
        output: torch.Tensor,
        given: torch.Tensor,
        output_splits: list[int] | None,
        input_splits: list[int] | None,
        opts: Any = None,
    ) -> Work:
        """Sends rows of a tensor to each rank and receives rows from each.

        Args:
            output: Rows from the ranks, one after the other.
            given: Rows for the ranks, one after the other.
            output_splits: Rows from each rank; None or empty: as many from all.
            input_splits: Rows for each rank; None or empty: as many for all.
            opts: torch's AllToAllOptions, or None.

        Returns:
            The work, whose result is the output.
        """
        opts = options_of(opts, c10d.AllToAllOptions)
        source = memory.plain(memory.check(given, "all_to_all_single"))
        target = memory.Output(memory.check(output, "all_to_all_single"))
        return self._all_to_all(
            "all_to_all_single",
            memory.buffer_of(source),
            split_counts(source, input_splits, "input", self._world_size),
            memory.buffer_of(target.memory),
            split_counts(target.memory, output_splits, "output", self._world_size),
            opts,
            [output],
            target.finish,
        )

    alltoall_base = all_to_all_single

    def _all_to_all(
        self,
        what: str,
        source: Any,
        send_counts: list[int],
        target: Any,
        recv_counts: list[int],
        opts: Any,
        result: list[torch.Tensor],
        finish: Callable[[], None],
    ) -> Work:
        request = self._call(
            opts, Communicator.all_to_all_counts, source, send_counts, target, recv_counts
        )
        return self._work(what, [request], result, [finish])

    @_operation
    def barrier(self, opts: Any = None, timeout: Any = None) -> Work:
        """Ends when all ranks have called it.

        Args:
            opts: torch's BarrierOptions, or None.
            timeout: The call's deadline, where it is not in `opts`.

        Returns:
            The work. The error of a timeout names the ranks that have not come.
        """
        opts = options_of(opts, c10d.BarrierOptions, timeout)
        return self._work("barrier", [self._call(opts, Communicator.barrier)], [], [])

    # --- point to point

    @_operation
    def send(self, given: Any, peer: int, tag: int = 0) -> Work:
        """Sends a tensor to a rank, through memory of the host.

        Args:
            given: A tensor, or a list of one.
            peer: The rank that receives it.
            tag: Messages of one tag do not overtake each other.

        Returns:
            The work. It may end only when the peer has posted its receive.
        """
        tensor = one_of(given, "send")
        request = self._call(None, Communicator.send, memory.buffer_of(memory.plain(tensor).cpu()), peer, tag)
        return self._work("send", [request], [tensor], [], None)

    @_operation
    def recv(self, given: Any, peer: int, tag: int = 0) -> Work:
        """Receives a tensor from a rank, through memory of the host.

        Args:
            given: A tensor, or a list of one, of the message's type and size, which is written.
            peer: The rank that sends; below 0: any.
            tag: The message's tag.

        Returns:
            The work, whose source_rank() is the sender.
        """
        output = memory.Received(one_of(given, "recv"))
        request = self._call(None, Communicator.recv, memory.buffer_of(output.memory), peer, tag)
        after = [] if output.direct else [output.finish]  # without one a dropped work takes no thread
        return self._work("recv", [request], [output.tensor], after, None)

    @_operation
    def recv_anysource(self, given: Any, tag: int = 0) -> Work:
        """Receives a tensor from whichever rank has sent one.

        Args:
            given: A tensor, or a list of one, of the message's type and size, which is written.
            tag: The message's tag.

        Returns:
            The work, whose source_rank() is the sender.
        """
        work: Work = self.recv(given, -1, tag)
        return work

    # --- calls that torch's coalescing manager makes together

    def _start_coalescing(self, device: torch.device | None = None) -> None:
        self._coalesced.operations = []

    def _end_coalescing(self, device: torch.device | None = None) -> Work:
        """A work for all that this thread has called since the start. They are under way already."""
        operations: list[Operation] = getattr(self._coalesced, "operations", None) or []
        self._coalesced.operations = None
        requests = [request for each in operations for request in each.requests]
        ends = [functools.partial(each.end, None) for each in operations]
        result = [tensor for each in operations for tensor in each.result]
        return self._work("calls made together", requests, result, ends, None, counted=False)

    # --- what the calls share

    def _call(self, opts: Any, call: Callable[..., Request], *arguments: Any, **named: Any) -> Request:
        timeout = getattr(opts, "timeout", None)
        seconds = -1.0 if timeout is None else timeout.total_seconds()
        if seconds < 0:
            seconds = self._timeout.total_seconds()
        device = memory.device_of(arguments, call.__name__)
        with self._lock:
            self._sequence += 1
            return call(
                self._communicator_of(device),
                *arguments,
                wait=False,
                timeout=seconds,
                foreground=not getattr(opts, "asyncOp", True),  # torch waits for it at once
                label=self.label,
                **named,
            )

    def _work(
        self,
        what: str,
        requests: Sequence[Request],
        result: Sequence[torch.Tensor],
        after: Sequence[Callable[[], object]],
        channel: Channel | None = "other",
        counted: bool = True,
    ) -> Work:
        device = next((each.device for each in requests if each.device is not None), None)
        where: Place = "host" if device is None else "device"
        completer = self._own_thread if channel is None else self._completers[channel, where]
        traffic = self._traffic if counted else None
        operation = (
            Operation(self, what, requests, result, after, traffic)
            if device is None
            else DeviceOperation(device, self, what, requests, result, after, traffic)
        )
        together = getattr(self._coalesced, "operations", None)
        if together is not None:
            together.append(operation)
        return Work(operation, completer)
