"""The backend with tensors of CUDA devices: two nodes of two ranks, on torch's CUDA where it has a GPU, else
on the double of the driver (cuda_tensors.py), which runs work late or in another order and reports what is
not ordered, and memory that is taken again too early."""

from __future__ import annotations

import os
import signal
import sys
import time
import unittest
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

import horing.torch
from cuda_tensors import ON_DOUBLE, ON_GPU, devices, tensor
from horing import requests
from horing.torch.arguments import TorchStore
from horing.torch.tensors import buffer_of
from horing.torch.work import DeviceOperation
from ranks import RanksFailed, run_ranks

NODES = [2, 2]
MODES = [""] if ON_GPU else ["lazy", "random"]
COUNT = 100_003  # more than one piece


def device() -> int:
    return dist.get_rank() % (torch.cuda.device_count() if ON_GPU else 2)


def mine(values: Any) -> torch.Tensor:
    return tensor(values, device())


def floats(count: int = COUNT) -> torch.Tensor:
    return torch.arange(count, dtype=torch.float32) % 1009 + dist.get_rank()


def summed(count: int = COUNT) -> torch.Tensor:
    """What an all-reduce of floats() gives."""
    return 4 * (torch.arange(count, dtype=torch.float32) % 1009) + 6


def expect(found: torch.Tensor, wanted: Any) -> None:
    wanted = wanted if isinstance(wanted, torch.Tensor) else torch.tensor(wanted)
    assert torch.equal(found.cpu(), wanted.to(found.dtype)), (found.cpu(), wanted)


NO_DEVICES = "torch has no CUDA here, and HORING_LIBRARY is no libhoring_on_double.so"


@unittest.skipUnless(ON_DOUBLE or ON_GPU, NO_DEVICES)
class OnDevices(unittest.TestCase):
    modes = MODES[-1:]

    def check(self, body: Callable[[], Any], **options: Any) -> list[Any]:
        def within() -> Any:
            if ON_GPU:
                torch.cuda.set_device(device())
            with devices():
                return body()

        results: list[Any] = []
        for mode in self.modes:
            os.environ["HORING_TEST_CUDA_MODE"] = mode
            with self.subTest(mode):
                results = run_ranks(NODES, within, **options)
        return results


class Collectives(OnDevices):
    def test_every_collective_gives_what_host_memory_gives(self) -> None:
        def body() -> None:
            rank, ranks = dist.get_rank(), 4
            for op, wanted in ((dist.ReduceOp.SUM, 10), (dist.ReduceOp.AVG, 2.5), (dist.ReduceOp.MAX, 4),
                               (dist.ReduceOp.PRODUCT, 24), (dist._make_nccl_premul_sum(0.5), 5)):
                one = mine([float(rank + 1)] * 3)
                dist.all_reduce(one, op)
                expect(one, [wanted] * 3)
            large = mine(floats())
            dist.all_reduce(large)
            expect(large, summed())
            gathered = mine(torch.zeros(ranks * 3))
            dist.all_gather_into_tensor(gathered, mine([float(rank)] * 3))
            expect(gathered, [float(each) for each in range(ranks) for _ in range(3)])
            part = mine(torch.zeros(2))
            dist.reduce_scatter_tensor(part, mine(torch.arange(8.0) + rank))
            expect(part, [4 * (2.0 * rank + each) + 6 for each in range(2)])
            pieces = [mine(torch.zeros(rank + 1)) for rank in range(ranks)]
            dist.all_gather(pieces, mine([float(rank)] * (rank + 1)))
            for index, piece in enumerate(pieces):
                expect(piece, [float(index)] * (index + 1))
            root = mine([float(rank)] * 2)
            dist.broadcast(root, 3)
            expect(root, [3.0, 3.0])
            to_one = mine([float(rank)] * 2)
            dist.reduce(to_one, 1)
            if rank == 1:
                expect(to_one, [6.0, 6.0])
            at_root = [mine(torch.zeros(2)) for _ in range(ranks)] if rank == 2 else None
            dist.gather(mine([float(rank)] * 2), at_root, 2)
            for index, each in enumerate(at_root or []):
                expect(each, [float(index)] * 2)
            part = mine(torch.zeros(1))
            dist.scatter(part, [mine([float(each)]) for each in range(ranks)] if rank == 0 else None, 0)
            expect(part, [float(rank)])
            turned = mine(torch.zeros(ranks))
            dist.all_to_all_single(turned, mine([10.0 * rank + each for each in range(ranks)]))
            expect(turned, [10.0 * each + rank for each in range(ranks)])
            dist.barrier()

        self.check(body)

    def test_layouts_and_types_that_take_a_copy(self) -> None:
        def body() -> None:
            rank = dist.get_rank()
            column = mine(torch.arange(12.0).reshape(3, 4))[:, 1]
            dist.all_reduce(column)
            expect(column, [4.0, 20.0, 36.0])
            narrow = mine(torch.tensor([rank, 1000], dtype=torch.int16))
            dist.all_reduce(narrow)
            expect(narrow, [6, 4000])
            some = mine(torch.tensor([rank == 2, False]))
            dist.all_reduce(some, dist.ReduceOp.MAX)
            expect(some, [True, False])
            out = mine(torch.zeros(4, 6))[:, ::2]
            dist.all_gather_into_tensor(out, mine([float(rank)] * 3))
            expect(out, [[float(each)] * 3 for each in range(4)])
            many = [mine([float(rank)] * 3), mine([1.0] * 5), mine([2] * 2)]
            with dist._coalescing_manager(async_ops=False):
                for each in many:
                    dist.all_reduce(each)
            for each, wanted in zip(many, ([6.0] * 3, [4.0] * 5, [8] * 2), strict=True):
                expect(each, wanted)

        self.check(body)

    def test_a_group_within_the_group_and_host_tensors_between(self) -> None:
        def body() -> None:
            rank = dist.get_rank()
            groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
            ours = groups[rank // 2]
            for _ in range(3):
                on_device, on_host = mine([float(rank)]), torch.tensor([float(rank)])
                dist.all_reduce(on_device, group=ours)
                dist.all_reduce(on_host)
                expect(on_device, [1.0 if rank < 2 else 5.0])
                expect(on_host, [6.0])
            reported = [None] * 4
            dist.all_gather_object(reported, rank)
            assert reported == [0, 1, 2, 3], reported

        self.check(body)

    def test_traffic_counts_the_bytes_that_host_memory_takes(self) -> None:
        def body() -> tuple[int, int]:
            dist.all_reduce(floats())
            of_host = horing.torch.traffic().inter_sent_bytes
            whole = mine(floats())
            dist.all_reduce(whole)
            whole.cpu()
            until = time.monotonic() + 60
            while horing.torch.traffic().inter_sent_bytes < 2 * of_host and time.monotonic() < until:
                time.sleep(0.01)
            return of_host, horing.torch.traffic().inter_sent_bytes - of_host

        sent = self.check(body)
        self.assertEqual([each[0] for each in sent], [each[1] for each in sent])
        self.assertEqual(sum(each[0] for each in sent), 2 * 4 * COUNT)

    def test_messages_go_through_memory_of_the_host(self) -> None:
        def body() -> None:
            rank = dist.get_rank()
            if rank in (0, 3):
                dist.send(mine(floats()), 3 - rank) if rank == 0 else None
                got = mine(torch.zeros(4, COUNT))[1] if rank == 3 else None
                if got is not None:
                    dist.recv(got, 0)
                    expect(got, floats() - rank)
            else:
                taken = mine(torch.zeros(3))
                works_of_both = [
                    dist.irecv(taken, 3 - rank), dist.isend(mine([float(rank)] * 3), 3 - rank)
                ]
                for work in works_of_both:
                    work.wait()
                expect(taken, [3.0 - rank] * 3)

        self.check(body)


class Communicators(OnDevices):
    def test_a_communicator_of_its_own_takes_tensors_on_the_current_stream(self) -> None:
        def body() -> None:
            store = TorchStore(dist.PrefixStore("own", dist.distributed_c10d._get_default_store()))
            with horing.Communicator(dist.get_rank(), 4, store=store, device=device(), timeout=30) as comm:
                side = torch.cuda.Stream(device())
                with torch.cuda.stream(side):
                    first = mine(floats())
                    comm.all_reduce(taken(first))
                    expect(first, summed())
                    second = mine(floats())
                    request = comm.all_reduce(taken(second), wait=False)
                request.join(torch.cuda.current_stream(device()).cuda_stream)
                expect(second, summed())
                request.wait()

        self.check(body)


def taken(input: torch.Tensor) -> Any:
    """By DLPack, which the double's tensors have not."""
    return input if ON_GPU else buffer_of(input)


class Order(OnDevices):
    modes = MODES

    def test_another_stream_waits_than_the_one_of_the_call(self) -> None:
        def body() -> None:
            side = torch.cuda.Stream(device())
            results = []
            for turn in range(6):
                with torch.cuda.stream(side):
                    input = mine(floats() + turn)
                    work = dist.all_reduce(input, async_op=True)
                work.wait()
                results.append((input, input * 1))
            for turn, (_, result) in enumerate(results):
                expect(result, summed() + 4 * turn)

        self.check(body)

    def test_memory_is_not_taken_again_before_the_operation_has_ended(self) -> None:
        def body() -> None:
            side = torch.cuda.Stream(device())
            for turn in range(12):
                with torch.cuda.stream(side):
                    work = dist.all_reduce(mine(floats() + turn), async_op=True)
                work.wait()
                del work
                # torch's allocator gives freed memory to `side` again, which has not waited.
                with torch.cuda.stream(side):
                    mine(torch.full((COUNT,), -1.0))
                    column = mine(torch.zeros(COUNT, 2))[:, 0]
                    work = dist.all_reduce(column, async_op=True)
                work.wait()
                del work
                # Of a column, two: what was reduced in its place, and that which came back.
                with torch.cuda.stream(side):
                    mine(torch.full((COUNT,), -1.0))
                    del column
                    mine(torch.zeros(COUNT, 2))

        self.check(body)

    def test_what_is_dropped_before_it_has_ended_is_kept(self) -> None:
        def body() -> None:
            results = []
            for _ in range(8):
                gathered = mine(torch.zeros(4 * COUNT))
                dist.all_gather_into_tensor(gathered, mine(floats()), async_op=True).wait()
                results.append(gathered.view(4, COUNT)[2, :5] * 1)
                del gathered
            for each in results:
                expect(each, torch.arange(5.0) + 2)
            for turn in range(8):
                parts = [mine(torch.zeros(COUNT)) for _ in range(4)]
                dist.all_gather(parts, mine(floats()), async_op=True)
                del parts
                again = mine(torch.full((COUNT,), float(turn)))
                dist.all_reduce(again)
                expect(again[:2] * 1, [4.0 * turn] * 2)

        self.check(body)

    def test_every_stream_that_waits_comes_after_a_copy_back(self) -> None:
        def body() -> None:
            whole = mine(torch.zeros(COUNT, 2))
            column = whole[:, 0]
            column += mine(floats())
            work = dist.all_reduce(column, async_op=True)
            results = []
            for stream in [torch.cuda.Stream(device()) for _ in range(3)]:
                with torch.cuda.stream(stream):
                    work.wait()
                    results.append((stream, column * 1))
            for stream, result in results:
                with torch.cuda.stream(stream):
                    expect(result, summed())

        self.check(body)

    def test_futures_callbacks_and_completion(self) -> None:
        def body() -> None:
            input = mine(floats())
            work = dist.all_reduce(input, async_op=True)
            doubled = work.get_future().then(lambda future: future.value()[0] * 2)
            work.wait()
            del work
            expect(input, summed())
            result = doubled.wait()
            torch.cuda.current_stream(device()).synchronize()
            if ON_GPU:  # the double's futures know no streams
                expect(result, 2 * summed())
            input = mine(summed())
            work = dist.all_reduce(input, async_op=True)
            until = time.monotonic() + 30
            while not work.is_completed() and time.monotonic() < until:
                time.sleep(0.001)
            assert work.is_completed() and work.is_success()
            work.wait()
            expect(input, 4 * summed())

        self.check(body)

    def test_an_operation_that_a_rank_has_not_begun_is_not_completed(self) -> None:
        def body() -> None:
            input = mine([1.0])
            dist.all_reduce(input)
            if dist.get_rank() == 1:
                dist.barrier()
            work = dist.all_reduce(input, async_op=True)
            if dist.get_rank() != 1:
                assert not work.is_completed()
                dist.barrier()
            work.wait()
            expect(input, [16.0])
            until = time.monotonic() + 30
            while not work.is_completed() and time.monotonic() < until:
                time.sleep(0.001)
            assert work.is_completed() and work.exception() is None

        self.check(body)

    def test_a_communicator_that_is_made_before_the_first_call(self) -> None:
        def body() -> None:
            dist.group.WORLD.eager_connect_single_device(torch.device("cpu"))
            dist.group.WORLD.eager_connect_single_device(torch.device("cuda", device()))
            input = mine([1.0])
            dist.all_reduce(input)
            expect(input, [4.0])

        self.check(body)

    @unittest.skipIf(ON_GPU, "a GPU may have done the work by chance")
    def test_a_wait_that_is_left_out_is_noticed(self) -> None:
        def body() -> None:
            dist.all_reduce(mine([1.0]))  # makes the communicator
            DeviceOperation._wait = lambda *_: True  # type: ignore[method-assign]
            input = mine(floats())
            store = dist.distributed_c10d._get_default_store()
            if dist.get_rank() == 3:  # until then no other's operation can end
                store.wait([f"looked {rank}" for rank in range(3)], timedelta(seconds=60))
            try:
                dist.all_reduce(input, async_op=True).wait()
                expect(input, summed())
            finally:
                store.set(f"looked {dist.get_rank()}", "")

        with self.assertRaises(RanksFailed) as caught:
            run_ranks(NODES, lambda: _within_devices(body))
        self.assertRegex(str(caught.exception), "not ordered after|tensor")


def _within_devices(body: Callable[[], Any]) -> Any:
    os.environ["HORING_TEST_CUDA_MODE"] = "lazy"
    with devices():
        return body()


class Errors(OnDevices):
    def fails(self, body: Callable[[], Any], *words: str, **options: Any) -> None:
        def within() -> str:
            try:
                body()
            except (dist.DistBackendError, ValueError) as error:
                return str(error)
            return "no error"

        for text in self.check(within, **options):
            for word in words:
                self.assertIn(word, text)

    def test_tensors_of_host_and_device_in_one_call(self) -> None:
        def body() -> None:
            dist.all_gather_into_tensor(torch.zeros(12), mine([1.0] * 3))

        self.fails(body, "tensors of one device", "cpu")

        def lists() -> None:
            dist.all_gather([mine([0.0]), torch.zeros(1), mine([0.0]), mine([0.0])], mine([1.0]))

        self.fails(lists, "tensors of one device", "cpu")

    def test_ranks_with_different_counts(self) -> None:
        def body() -> None:
            input = mine([1.0] * (3 + dist.get_rank()))
            dist.all_reduce(input)
            input.cpu()
            dist.all_reduce(input)

        self.fails(body, "all_reduce", "peer called all_reduce", "float sum")

    def test_a_rank_that_does_not_come_is_named_in_time(self) -> None:
        def body() -> None:
            input = mine([1.0])
            dist.all_reduce(input)
            store = dist.distributed_c10d._get_default_store()
            others = [f"ended {rank}" for rank in (0, 2, 3)]
            if dist.get_rank() == 1:
                store.wait(others, timedelta(seconds=60))
            options = dist.AllreduceOptions()
            options.timeout = timedelta(seconds=2)
            try:
                dist.group.WORLD.allreduce([input], options).wait()
            finally:
                store.set(f"ended {dist.get_rank()}", "")

        self.fails(body, "timeout", "1")

    def test_a_wait_with_a_limit_ends_and_the_operation_goes_on(self) -> None:
        def body() -> None:
            input = mine([1.0])
            dist.all_reduce(input)
            if dist.get_rank() == 3:
                dist.barrier()
            work = dist.all_reduce(input, async_op=True)
            if dist.get_rank() == 0:
                try:
                    work.wait(timedelta(milliseconds=150))
                except dist.DistBackendError as error:
                    assert "goes on" in str(error), error
                else:
                    raise AssertionError("it ended")
            if dist.get_rank() != 3:
                dist.barrier()
            work.wait()
            expect(input, [16.0])

        self.check(body)

    def test_ctrl_c_ends_a_wait_for_other_ranks(self) -> None:
        def body() -> bool:
            import _thread
            import threading

            signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
            input = mine([1.0])
            dist.all_reduce(input)
            store = dist.distributed_c10d._get_default_store()
            if dist.get_rank() != 0:
                store.wait(["interrupted"])
                return True
            timer = threading.Timer(0.3, _thread.interrupt_main)
            try:
                timer.start()
                dist.all_reduce(input)
            except KeyboardInterrupt:
                store.set("interrupted", "")
                return True
            return False

        self.assertEqual(self.check(body), [True] * 4)

    def test_abort_ends_a_wait_on_every_rank(self) -> None:
        def body() -> None:
            input = mine([1.0])
            dist.all_reduce(input)
            if dist.get_rank() == 2:
                time.sleep(0.3)
                dist.group.WORLD.abort()
            dist.all_reduce(input)

        self.fails(body, "abort")

    def test_abort_of_a_group_ends_calls_of_those_split_from_it(self) -> None:
        def body() -> None:
            if dist.get_rank() == 0:  # hears of it from the other rank of its group
                requests.SLICE_MS = 60_000
            part = dist.group.WORLD.split_group([0, 2])
            store = dist.distributed_c10d._get_default_store()
            if part is not None:
                input = mine([1.0])
                part.allreduce([input]).wait()
                store.set(f"called {dist.get_rank()}", "")
                if dist.get_rank() == 0:
                    part.allreduce([input]).wait()
            if dist.get_rank() == 1:
                store.wait(["called 0", "called 2"], timedelta(seconds=300))
                dist.group.WORLD.abort()
            try:
                dist.all_reduce(torch.ones(1))
            finally:
                if part is not None:
                    part.shutdown()

        self.fails(body, "abort")


if __name__ == "__main__":
    if not (ON_DOUBLE or ON_GPU):
        print(f"device_test: {NO_DEVICES}")
        sys.exit(77)
    unittest.main(verbosity=2)
