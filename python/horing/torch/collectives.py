"""The calls of torch.distributed, each as an operation of libhoring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

from horing.communicator import Communicator
from horing.requests import Request
from horing.torch import tensors as memory
from horing.torch.arguments import (
    batches_of,
    expect_equal,
    list_of,
    one_of,
    options_of,
    reduce_op,
    split_counts,
)
from horing.torch.calls import Calls, torch_errors
from horing.torch.work import Work


class Collectives(Calls):
    """The part of a process group that torch.distributed calls for data."""

    @torch_errors
    def allreduce(self, inputs: Any, opts: Any = None, timeout: Any = None) -> Work:
        """Reduces a tensor over all ranks, in place.

        Args:
            inputs: A tensor, or a list of one, of the same shape on all ranks.
            opts: torch's AllreduceOptions, a reduction, or None for SUM.
            timeout: The call's deadline, where it is not in `opts`.

        Returns:
            The work, whose result is the tensor.
        """
        opts = options_of(opts, c10d.AllreduceOptions, timeout)
        return self._all_reduce("all_reduce", [one_of(inputs, "all_reduce")], opts)

    @torch_errors
    def allreduce_coalesced(self, inputs: Sequence[torch.Tensor], opts: Any = None) -> Work:
        """Reduces several tensors over all ranks, in place. Small ones go through one operation.

        Args:
            inputs: Tensors of the same shapes on all ranks.
            opts: torch's AllreduceCoalescedOptions, or None for SUM.

        Returns:
            The work for all of them.
        """
        opts = options_of(opts, c10d.AllreduceCoalescedOptions)
        tensors = [memory.check(each, "all_reduce_coalesced") for each in inputs]
        return self._all_reduce("all_reduce_coalesced", tensors, opts)

    def _all_reduce(self, what: str, inputs: list[torch.Tensor], opts: Any) -> Work:
        op, scale = reduce_op(opts.reduceOp)
        requests, after = [], []
        for batch in batches_of(inputs):
            target = memory.Outputs(batch) if len(batch) > 1 else None
            whole = batch[0]
            if target is not None:
                whole = target.memory
                if not target.direct:
                    torch.cat([each.reshape(-1) for each in batch], out=whole)
            reduction = memory.Reduction(whole, op, scale)
            data = memory.buffer_of(reduction.tensor)
            requests.append(self._call(opts, Communicator.all_reduce, data, data, op=reduction.op, scale=scale))
            after.append(reduction.finish)
            if target is not None:
                after.append(target.finish)
        return self._work(what, requests, inputs, after)

    @torch_errors
    def reduce(self, inputs: Any, opts: Any = None, op: Any = None, timeout: Any = None) -> Work:
        """Reduces a tensor over all ranks, into the root's tensor.

        Args:
            inputs: A tensor, or a list of one, of the same shape on all ranks. Only the root's is
                written.
            opts: torch's ReduceOptions, or the root's rank.
            op: The reduction, where it is not in `opts`; None: SUM.
            timeout: The call's deadline, where it is not in `opts`.

        Returns:
            The work, whose result is the tensor.
        """
        opts = options_of(opts, c10d.ReduceOptions, timeout, op)
        tensor = one_of(inputs, "reduce")
        reduction = memory.Reduction(tensor, *reduce_op(opts.reduceOp))
        data = memory.buffer_of(reduction.tensor)
        on_root = opts.rootRank == self._rank
        request = self._call(
            opts, Communicator.reduce, data, data if on_root else None, reduction.op, opts.rootRank,
            scale=reduction.scale,
        )
        return self._work("reduce", [request], [tensor], [reduction.finish] if on_root else [])

    @torch_errors
    def broadcast(self, inputs: Any, opts: Any = None, timeout: Any = None) -> Work:
        """Copies the root's tensor to all ranks, in place.

        Args:
            inputs: A tensor, or a list of one, of the same shape on all ranks.
            opts: torch's BroadcastOptions, or the root's rank.
            timeout: The call's deadline, where it is not in `opts`.

        Returns:
            The work, whose result is the tensor.
        """
        opts = options_of(opts, c10d.BroadcastOptions, timeout)
        output = memory.Output(one_of(inputs, "broadcast"), keeps=True)
        request = self._call(opts, Communicator.broadcast, memory.buffer_of(output.memory), opts.rootRank)
        return self._work("broadcast", [request], [output.tensor], [output.finish])

    @torch_errors
    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """Copies each rank's tensor into a list of all ranks' tensors.

        Args:
            outputs: A tensor for each rank, or a list of one such list. Sizes may differ by rank.
            inputs: This rank's tensor, or a list of one.
            opts: torch's AllgatherOptions, or None.

        Returns:
            The work, whose result are the outputs.
        """
        opts = options_of(opts, c10d.AllgatherOptions)
        tensor = one_of(inputs, "all_gather")
        return self._all_gather("all_gather", [(list_of(outputs, "all_gather"), tensor)], opts)

    @torch_errors
    def allgather_coalesced(
        self, outputs: Sequence[Sequence[torch.Tensor]], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> Work:
        """As allgather, for several tensors.

        Args:
            outputs: outputs[r] are the tensors of rank r.
            inputs: This rank's tensors.
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
            for index, tensor in enumerate(inputs)
        ]
        return self._all_gather("all_gather_coalesced", pairs, opts)

    @torch_errors
    def all_gather_single(self, output: torch.Tensor, inputs: torch.Tensor, opts: Any = None) -> Work:
        """Copies each rank's tensor into one tensor, by rank.

        Args:
            output: world_size times the elements of `inputs`.
            inputs: This rank's tensor.
            opts: torch's AllgatherOptions, or None.

        Returns:
            The work, whose result is the output.
        """
        opts = options_of(opts, c10d.AllgatherOptions)
        return self._all_gather_flat("all_gather_single", [(output, inputs)], opts)

    _allgather_base = all_gather_single

    @torch_errors
    def all_gather_single_coalesced(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> Work:
        """As all_gather_single, for several pairs of tensors.

        Args:
            outputs: Each has world_size times the elements of its input.
            inputs: This rank's tensors.
            opts: torch's AllgatherOptions, or None.

        Returns:
            The work for all of them.
        """
        opts = options_of(opts, c10d.AllgatherOptions)
        pairs = list(zip(outputs, inputs, strict=True))
        return self._all_gather_flat("all_gather_single_coalesced", pairs, opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def _all_gather_flat(
        self, what: str, pairs: Sequence[tuple[torch.Tensor, torch.Tensor]], opts: Any
    ) -> Work:
        requests, after, result = [], [], []
        for output, inputs in pairs:
            source = memory.buffer_of(memory.plain(memory.check(inputs, what)))
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
        for targets, inputs in pairs:
            memory.check_one_device([inputs, *targets], what)
            source = memory.buffer_of(memory.plain(inputs))
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

    @torch_errors
    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None, timeout: Any = None) -> Work:
        """Reduces a list over all ranks and leaves each rank its part.

        Args:
            outputs: This rank's tensor, or a list of one.
            inputs: A tensor for each rank, or a list of one such list. Sizes may differ by rank.
            opts: torch's ReduceScatterOptions, a reduction, or None for SUM.
            timeout: The call's deadline, where it is not in `opts`.

        Returns:
            The work, whose result is the output.
        """
        opts = options_of(opts, c10d.ReduceScatterOptions, timeout)
        output = one_of(outputs, "reduce_scatter")
        parts = list_of(inputs, "reduce_scatter")
        counts = [each.numel() for each in parts]
        return self._reduce_scatter(
            "reduce_scatter", [(output, memory.flattened(parts), counts)], opts
        )

    @torch_errors
    def reduce_scatter_single(
        self, output: torch.Tensor, inputs: torch.Tensor, opts: Any = None
    ) -> Work:
        """Reduces one tensor over all ranks and leaves each rank its part.

        Args:
            output: This rank's part.
            inputs: world_size times the elements of `output`.
            opts: torch's ReduceScatterOptions, or None for SUM.

        Returns:
            The work, whose result is the output.
        """
        opts = options_of(opts, c10d.ReduceScatterOptions)
        return self._reduce_scatter(
            "reduce_scatter_single", [(output, memory.check(inputs, "reduce_scatter"), None)], opts
        )

    _reduce_scatter_base = reduce_scatter_single

    @torch_errors
    def reduce_scatter_single_coalesced(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> Work:
        """As reduce_scatter_single, for several pairs of tensors.

        Args:
            outputs: This rank's parts.
            inputs: Each has world_size times the elements of its output.
            opts: torch's ReduceScatterOptions, or None for SUM.

        Returns:
            The work for all of them.
        """
        opts = options_of(opts, c10d.ReduceScatterOptions)
        what = "reduce_scatter_single_coalesced"
        triples = [
            (output, memory.check(tensor, what), None)
            for output, tensor in zip(outputs, inputs, strict=True)
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
        for output, inputs, counts in triples:
            source = memory.Reduction(memory.plain(inputs), op, scale)
            target = memory.Reduction(memory.check(output, what), op, scale)
            whole, own = memory.buffer_of(source.tensor), memory.buffer_of(target.tensor)
            call: Callable[..., Request] = Communicator.reduce_scatter
            unequal = []
            if counts is not None and any(count != counts[0] for count in counts):
                call = Communicator.reduce_scatter_counts
                unequal = [[count * whole.count // sum(counts) for count in counts]]
            requests.append(self._call(opts, call, whole, own, *unequal, op=source.op, scale=scale))
            after.append(target.finish)
            result.append(output)
        return self._work(what, requests, result, after, "reduce_scatter")

    @torch_errors
    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """Copies each rank's tensor to the root's list.

        Args:
            outputs: On the root a tensor for each rank, or a list of one such list; else empty.
            inputs: This rank's tensor, or a list of one, of as many elements on all ranks.
            opts: torch's GatherOptions, which has the root; None: rank 0.

        Returns:
            The work, whose result are the root's outputs.
        """
        opts = options_of(opts, c10d.GatherOptions)
        tensor = one_of(inputs, "gather")
        if opts.rootRank != self._rank:
            return self._gather("gather", tensor, None, [], opts)
        targets = list_of(outputs, "gather")
        expect_equal("gather", targets, tensor, self._world_size)
        return self._gather("gather", tensor, memory.Outputs(targets), targets, opts)

    @torch_errors
    def gather_single(self, output: torch.Tensor, inputs: torch.Tensor, opts: Any = None) -> Work:
        """Copies each rank's tensor into one tensor of the root, by rank.

        Args:
            output: On the root world_size times the elements of `inputs`; not looked at elsewhere.
            inputs: This rank's tensor.
            opts: torch's GatherOptions, which has the root; None: rank 0.

        Returns:
            The work, whose result is the root's output.
        """
        opts = options_of(opts, c10d.GatherOptions)
        tensor = memory.check(inputs, "gather_single")
        if opts.rootRank != self._rank:
            return self._gather("gather_single", tensor, None, [], opts)
        target = memory.Output(memory.check(output, "gather_single"))
        return self._gather("gather_single", tensor, target, [output], opts)

    gather_into_tensor = gather_single

    def _gather(
        self,
        what: str,
        inputs: torch.Tensor,
        output: memory.Output | memory.Outputs | None,
        result: Sequence[torch.Tensor],
        opts: Any,
    ) -> Work:
        source = memory.buffer_of(memory.plain(inputs))
        target = None if output is None else memory.buffer_of(output.memory)
        request = self._call(opts, Communicator.gather, source, target, opts.rootRank)
        return self._work(what, [request], result, [] if output is None else [output.finish])

    @torch_errors
    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """Copies the tensors of the root's list to the ranks.

        Args:
            outputs: This rank's tensor, or a list of one.
            inputs: On the root a tensor for each rank, or a list of one such list; else empty.
            opts: torch's ScatterOptions, which has the root; None: rank 0.

        Returns:
            The work, whose result is this rank's tensor.
        """
        opts = options_of(opts, c10d.ScatterOptions)
        output = memory.Output(one_of(outputs, "scatter"))
        source = None
        if opts.rootRank == self._rank:
            parts = list_of(inputs, "scatter")
            expect_equal("scatter", parts, output.tensor, self._world_size)
            source = memory.buffer_of(memory.flattened(parts))
        request = self._call(
            opts, Communicator.scatter, source, memory.buffer_of(output.memory), opts.rootRank
        )
        return self._work("scatter", [request], [output.tensor], [output.finish])

    @torch_errors
    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """Sends a tensor to each rank and receives one from each. Sizes may differ.

        Args:
            outputs: A tensor from each rank.
            inputs: A tensor for each rank.
            opts: torch's AllToAllOptions, or None.

        Returns:
            The work, whose result are the outputs.
        """
        opts = options_of(opts, c10d.AllToAllOptions)
        sources, targets = list_of(inputs, "all_to_all"), list_of(outputs, "all_to_all")
        to, back = ([memory.buffer_of(each).count for each in list_] for list_ in (sources, targets))
        source, output = memory.flattened(sources), memory.Outputs(targets)
        return self._all_to_all("all_to_all", source, to, output, back, targets, opts)

    @torch_errors
    def all_to_all_single(
        self,
        output: torch.Tensor,
        inputs: torch.Tensor,
        output_splits: list[int] | None,
        input_splits: list[int] | None,
        opts: Any = None,
    ) -> Work:
        """Sends rows of a tensor to each rank and receives rows from each.

        Args:
            output: Rows from the ranks, one after the other.
            inputs: Rows for the ranks, one after the other.
            output_splits: Rows from each rank; None or empty: as many from all.
            input_splits: Rows for each rank; None or empty: as many for all.
            opts: torch's AllToAllOptions, or None.

        Returns:
            The work, whose result is the output.
        """
        opts = options_of(opts, c10d.AllToAllOptions)
        source = memory.plain(memory.check(inputs, "all_to_all_single"))
        target = memory.Output(memory.check(output, "all_to_all_single"))
        to = split_counts(source, input_splits, "input", self._world_size)
        back = split_counts(target.memory, output_splits, "output", self._world_size)
        return self._all_to_all("all_to_all_single", source, to, target, back, [output], opts)

    alltoall_base = all_to_all_single

    def _all_to_all(
        self,
        what: str,
        inputs: torch.Tensor,
        to: list[int],
        output: memory.Output | memory.Outputs,
        back: list[int],
        result: Sequence[torch.Tensor],
        opts: Any,
    ) -> Work:
        source, target = memory.buffer_of(inputs), memory.buffer_of(output.memory)
        request = self._call(opts, Communicator.all_to_all_counts, source, to, target, back)
        return self._work(what, [request], result, [output.finish])

    @torch_errors
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

    @torch_errors
    def send(self, inputs: Any, peer: int, tag: int = 0) -> Work:
        """Sends a tensor to a rank, through memory of the host.

        Args:
            inputs: A tensor, or a list of one.
            peer: The rank that receives it.
            tag: Messages of one tag do not overtake each other.

        Returns:
            The work. It may end only when the peer has posted its receive.
        """
        tensor = one_of(inputs, "send")
        request = self._call(None, Communicator.send, memory.buffer_of(memory.plain(tensor).cpu()), peer, tag)
        return self._work("send", [request], [tensor], [], None)

    @torch_errors
    def recv(self, inputs: Any, peer: int, tag: int = 0) -> Work:
        """Receives a tensor from a rank, through memory of the host.

        Args:
            inputs: A tensor, or a list of one, of the message's type and size, which is written.
            peer: The rank that sends; below 0: any.
            tag: The message's tag.

        Returns:
            The work, whose source_rank() is the sender.
        """
        output = memory.Received(one_of(inputs, "recv"))
        request = self._call(None, Communicator.recv, memory.buffer_of(output.memory), peer, tag)
        after = [] if output.direct else [output.finish]  # without one a dropped work takes no thread
        return self._work("recv", [request], [output.tensor], after, None)

    @torch_errors
    def recv_anysource(self, inputs: Any, tag: int = 0) -> Work:
        """Receives a tensor from whichever rank has sent one.

        Args:
            inputs: A tensor, or a list of one, of the message's type and size, which is written.
            tag: The message's tag.

        Returns:
            The work, whose source_rank() is the sender.
        """
        work: Work = self.recv(inputs, -1, tag)
        return work
