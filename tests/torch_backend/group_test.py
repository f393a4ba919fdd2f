"""What the group does call by call: types, operations, layouts, groups."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
import unittest
import weakref
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.distributed.checkpoint as dcp
from torch._C import _distributed_c10d as c10d
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

import horing.torch
from horing.torch.arguments import TorchStore
from horing.torch.process_group import ProcessGroup
from horing.torch.unsupported import INSTEAD
from ranks import run_ranks

NODES = [2, 2]
RANKS = 4


def rank() -> int:
    return dist.get_rank()


class Calls(unittest.TestCase):
    """Bodies run on every rank; an assertion that fails there fails the test with its text."""

    def check(self, body: Any, nodes: list[int] | None = None, **options: Any) -> list[Any]:
        return run_ranks(nodes or NODES, body, **options)

    def test_every_type_is_reduced_or_moved(self) -> None:
        def body() -> None:
            for dtype in (
                torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8,
                torch.uint8, torch.int16, torch.int32, torch.int64, torch.complex64,
            ):
                tensor = torch.full((5,), rank() + 1).to(dtype)
                dist.all_reduce(tensor)
                assert torch.equal(tensor, torch.full((5,), 10).to(dtype)), (dtype, tensor)
            flags = torch.tensor([rank() == 2, True, False])
            dist.all_reduce(flags, dist.ReduceOp.MAX)
            assert flags.tolist() == [True, True, False], flags
            for dtype in (torch.bool, torch.int16, torch.complex128, torch.float8_e4m3fn):
                sent = torch.tensor([1, 0, 1]).to(dtype) if rank() == 1 else torch.zeros(3).to(dtype)
                dist.broadcast(sent, 1)
                assert sent.to(torch.complex128).real.tolist() == [1, 0, 1], (dtype, sent)

        self.check(body)

    def test_every_reduction_gives_its_result(self) -> None:
        def body() -> None:
            op = dist.ReduceOp
            expected = {op.SUM: 10, op.PRODUCT: 24, op.MIN: 1, op.MAX: 4, op.AVG: 2.5}
            for each, value in expected.items():
                tensor = torch.full((3,), float(rank() + 1))
                dist.all_reduce(tensor, each)
                assert tensor.tolist() == [value] * 3, (each, tensor)
            for each, value in {op.BAND: 0, op.BOR: 7, op.BXOR: 4}.items():
                bits = torch.full((3,), rank() + 1)
                dist.all_reduce(bits, each)
                assert bits.tolist() == [value] * 3, (each, bits)
            scaled = torch.full((3,), float(rank() + 1))
            dist.all_reduce(scaled, dist._make_nccl_premul_sum(0.5))
            assert scaled.tolist() == [5.0] * 3, scaled

        self.check(body)

    def test_tensors_that_are_not_contiguous_are_results_too(self) -> None:
        def body() -> None:
            column = torch.arange(12.0).reshape(3, 4)[:, 1]
            before = column.clone()
            dist.all_reduce(column)
            assert torch.equal(column, RANKS * before), column
            parts = [torch.zeros(2, 3).t() for _ in range(RANKS)]
            dist.all_gather(parts, torch.full((3, 2), float(rank())))
            assert [part[0, 0].item() for part in parts] == [0, 1, 2, 3], parts
            whole = torch.zeros(2 * RANKS, 2).t()
            dist.all_gather_into_tensor(whole.t(), torch.full((2, 2), float(rank())))
            assert whole.t()[::2, 0].tolist() == [0, 1, 2, 3], whole

        self.check(body)

    def test_a_reduction_writes_into_the_root_s_tensor_alone(self) -> None:
        def body() -> None:
            onto = torch.ones(3, 2)[:, 0]
            input = onto if rank() == 1 else torch.ones(1).expand(3)  # which nothing can be copied to
            dist.reduce(input, 1)
            assert input.tolist() == [RANKS if rank() == 1 else 1.0] * 3, input

        self.check(body)

    def test_gathers_of_lists_write_into_every_tensor_of_the_list(self) -> None:
        def body() -> None:
            flat = torch.zeros(RANKS * 3)
            adjacent = list(flat.chunk(RANKS))
            dist.all_gather(adjacent, torch.full((3,), float(rank())))
            assert flat.tolist() == [0.0] * 3 + [1.0] * 3 + [2.0] * 3 + [3.0] * 3, flat
            uneven = [torch.zeros(each + 1) for each in range(RANKS)]
            dist.group.WORLD.allgather([uneven], [torch.full((rank() + 1,), float(rank()))]).wait()
            assert [part.tolist() for part in uneven] == [[0], [1] * 2, [2] * 3, [3] * 4], uneven
            out = torch.zeros(2)
            dist.reduce_scatter(out, [torch.full((2,), float(each)) for each in range(RANKS)])
            assert out.tolist() == [4.0 * rank()] * 2, out
            short = torch.zeros(rank() + 1)
            dist.group.WORLD.reduce_scatter(
                [short], [[torch.full((each + 1,), float(each)) for each in range(RANKS)]]
            ).wait()
            assert short.tolist() == [4.0 * rank()] * (rank() + 1), short

        self.check(body)

    def test_all_to_all_moves_equal_and_uneven_blocks(self) -> None:
        def body() -> None:
            out = torch.empty(RANKS, dtype=torch.int64)
            dist.all_to_all_single(out, torch.arange(RANKS) + 10 * rank())
            assert out.tolist() == [10 * other + rank() for other in range(RANKS)], out
            counts = [(rank() + other) % 3 for other in range(RANKS)]
            sent = torch.cat([torch.full((c, 2), 10 * rank() + i) for i, c in enumerate(counts)])
            uneven = torch.empty(sum(counts), 2, dtype=torch.int64)
            dist.all_to_all_single(uneven, sent, counts, counts)
            expected = [10 * other + rank() for other, c in enumerate(counts) for _ in range(c)]
            assert uneven[:, 1].tolist() == expected, uneven
            outs = [torch.empty(1 + other) for other in range(RANKS)]
            dist.all_to_all(outs, [torch.full((1 + rank(),), float(other)) for other in range(RANKS)])
            assert [part.tolist() for part in outs] == [[rank()] * (1 + r) for r in range(RANKS)], outs

        self.check(body)

    def test_coalesced_calls_give_what_single_ones_give(self) -> None:
        def body() -> None:
            tensors = [torch.full((n,), float(rank() + n)) for n in (1, 5, 400_000, 7)]
            tensors.append(torch.full((4,), rank() + 1))
            with dist._coalescing_manager():
                for tensor in tensors:
                    dist.all_reduce(tensor)
            for tensor, n in zip(tensors, (1, 5, 400_000, 7), strict=False):
                assert tensor.unique().tolist() == [4.0 * n + 6], tensor
            assert tensors[4].tolist() == [10] * 4
            outs = [torch.zeros(RANKS * n) for n in (1, 3)]
            with dist._coalescing_manager():
                for out, n in zip(outs, (1, 3), strict=True):
                    dist.all_gather_into_tensor(out, torch.full((n,), float(rank())))
            assert outs[1].tolist() == [float(r) for r in range(RANKS) for _ in range(3)], outs
            sums = [torch.zeros(n) for n in (1, 3)]
            with dist._coalescing_manager():
                for out, n in zip(sums, (1, 3), strict=True):
                    dist.reduce_scatter_tensor(out, torch.arange(float(RANKS)).repeat_interleave(n))
            assert sums[1].tolist() == [4.0 * rank()] * 3, sums

        self.check(body)

    def test_calls_that_torch_makes_together_end_together(self) -> None:
        def body() -> None:
            tensors = [torch.full((3,), float(rank())) for _ in range(2)]
            column = torch.full((2, 2), float(rank()))[:, 0]
            with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as together:
                for tensor in tensors:
                    dist.all_reduce(tensor)
                dist.broadcast(column, 2, async_op=True)
            together.wait()
            assert [tensor.tolist() for tensor in tensors] == [[6.0] * 3] * 2, tensors
            assert column.tolist() == [2.0] * 2, column

        self.check(body)

    def test_a_gather_into_one_tensor_writes_at_its_root(self) -> None:
        def body() -> None:
            whole = torch.zeros(2 * RANKS, 2).t()[0] if rank() == 1 else torch.empty(0)
            options = c10d.GatherOptions()
            options.rootRank = 1
            input = torch.full((2,), float(rank()))
            dist.group.WORLD.gather_single(whole, input, options).wait()
            assert rank() != 1 or whole.tolist() == [0, 0, 1, 1, 2, 2, 3, 3], whole

        self.check(body)

    def test_every_method_of_torch_s_groups_is_answered_or_refused(self) -> None:
        theirs = {
            "BackendType", "CUSTOM", "GLOO", "MPI", "NCCL", "UCC", "UNDEFINED", "XCCL", "_backend_id", "_id",
            "_pybind11_conduit_v1_", "_enable_collectives_timing", "boxed", "unbox",
            "use_pg_for_symm_mem_rendezvous",
        }
        classes = ProcessGroup.__mro__
        ours = {name for each in classes[: classes.index(dist.ProcessGroup)] for name in vars(each)}
        names = {name for name in dir(dist.ProcessGroup) if not name.startswith("__")}
        self.assertEqual(names - ours - theirs, set(), "what does this release of torch want of these?")

        def body() -> None:
            for name in INSTEAD:
                try:
                    getattr(dist.group.WORLD, name)()
                except NotImplementedError as error:
                    assert name in str(error), error
                else:
                    raise AssertionError(f"{name} was not refused")

        self.check(body, [1])

    def test_messages_match_by_tag_from_anyone_and_from_oneself(self) -> None:
        def body() -> None:
            if rank() == 0:
                for tag in (5, 3):
                    got = torch.zeros(2)
                    dist.recv(got, 1, tag=tag)
                    assert got.tolist() == [float(tag)] * 2, got
                heard = sorted(dist.recv(torch.zeros(1), tag=9) for _ in range(RANKS - 1))
                assert heard == [1, 2, 3], heard
            else:
                if rank() == 1:
                    works = [dist.isend(torch.full((2,), float(tag)), 0, tag=tag) for tag in (3, 5)]
                    for work in works:
                        work.wait()
                dist.send(torch.ones(1), 0, tag=9)
            group = dist.group.WORLD
            mine = torch.zeros(3)
            work = group.recv([mine], rank(), 1)
            group.send([torch.full((3,), 2.0)], rank(), 1).wait()
            work.wait()
            assert mine.tolist() == [2.0] * 3, mine
            ring = torch.zeros(1)
            for work in dist.batch_isend_irecv([
                dist.P2POp(dist.isend, torch.full((1,), float(rank())), (rank() + 1) % RANKS),
                dist.P2POp(dist.irecv, ring, (rank() - 1) % RANKS),
            ]):
                work.wait()
            assert ring.item() == (rank() - 1) % RANKS, ring

        self.check(body)

    def test_objects_are_broadcast_gathered_and_scattered(self) -> None:
        def body() -> None:
            everybody: list[Any] = [None] * RANKS
            dist.all_gather_object(everybody, {"rank": rank()})
            assert everybody == [{"rank": r} for r in range(RANKS)], everybody
            objects = ["a", [1, 2]] if rank() == 2 else [None, None]
            dist.broadcast_object_list(objects, src=2)
            assert objects == ["a", [1, 2]], objects
            got: list[Any] = [None]
            dist.scatter_object_list(got, list("abcd") if rank() == 0 else None)
            assert got == ["abcd"[rank()]], got
            gathered = [None] * RANKS if rank() == 3 else None
            dist.gather_object(rank(), gathered, dst=3)
            assert gathered in (None, [0, 1, 2, 3]), gathered

        self.check(body)

    def test_groups_of_some_ranks_work_from_several_threads(self) -> None:
        def body() -> None:
            even, odd = dist.new_group([0, 2]), dist.new_group([1, 3])
            everybody = dist.new_group(list(range(RANKS)))
            mine = even if rank() % 2 == 0 else odd
            wrong: list[Any] = []

            def reduce_often(group: Any, expected: float) -> None:
                for _ in range(50):
                    tensor = torch.full((100,), float(rank()))
                    dist.all_reduce(tensor, group=group)
                    if tensor.unique().tolist() != [expected]:
                        wrong.append(tensor)

            threads = [
                threading.Thread(target=reduce_often, args=(mine, 2.0 + 2 * (rank() % 2))),
                threading.Thread(target=reduce_often, args=(everybody, 6.0)),
            ]
            for thread in threads:
                thread.start()
            reduce_often(dist.group.WORLD, 6.0)
            for thread in threads:
                thread.join()
            assert not wrong, wrong
            halves = dist.group.WORLD.split_group([0, 1] if rank() < 2 else [2, 3])
            tensor = torch.full((1,), float(rank()))
            halves.allreduce([tensor]).wait()
            assert tensor.item() == (1.0 if rank() < 2 else 5.0), tensor

        self.check(body)

    def test_functional_collectives_and_dtensors_come_out_right(self) -> None:
        def body() -> None:
            mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
            total = funcol.all_reduce(torch.ones(3), "sum", mesh["b"])
            assert (total + 0).tolist() == [2.0] * 3, total
            full = torch.arange(24.0).reshape(6, 4)
            sharded = distribute_tensor(full, mesh, [Shard(0), Shard(1)])
            assert torch.equal(sharded.full_tensor(), full), sharded
            product = (sharded @ distribute_tensor(torch.eye(4), mesh, [Shard(0), Shard(1)]))
            assert torch.equal(product.full_tensor(), full), product

        self.check(body)

    def test_distributed_checkpoints_are_saved_and_loaded(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            def body() -> None:
                mesh = init_device_mesh("cpu", (RANKS,))
                full = torch.arange(40.0).reshape(10, 4)
                dcp.save({"w": distribute_tensor(full, mesh, [Shard(0)])}, checkpoint_id=folder)
                loaded = {"w": distribute_tensor(torch.zeros(10, 4), mesh, [Shard(0)])}
                dcp.load(loaded, checkpoint_id=folder)
                assert torch.equal(loaded["w"].full_tensor(), full), loaded

            self.check(body)

    def test_futures_complete_with_the_result(self) -> None:
        def body() -> None:
            tensor = torch.full((4,), float(rank()))
            future = dist.all_reduce(tensor, async_op=True).get_future()
            doubled = future.then(lambda done: done.value()[0] * 2)
            assert doubled.wait().tolist() == [12.0] * 4, doubled
            works = [dist.all_reduce(torch.ones(8), async_op=True) for _ in range(20)]
            for work in works:
                work.wait()
                assert work.is_completed() and work.is_success()

        self.check(body)

    def test_a_callback_waits_for_the_future_of_a_later_call(self) -> None:
        def body() -> None:
            first = dist.all_reduce(torch.ones(4), async_op=True).get_future()

            def then(_: Any) -> torch.Tensor:
                second = dist.all_reduce(torch.full((4,), 2.0), async_op=True).get_future()
                return second.then(lambda done: done.value()[0] + 1).wait()

            result = first.then(then).wait()
            assert result.tolist() == [2.0 * RANKS + 1] * 4, result

        self.check(body)

    def test_views_that_negate_or_conjugate_are_what_they_show(self) -> None:
        def body() -> None:
            printed = torch._neg_view(torch.ones(3))
            parts = [torch.empty(3) for _ in range(RANKS)]
            dist.all_gather(parts, printed)
            assert all(part.tolist() == [-1.0] * 3 for part in parts), parts
            into = torch._neg_view(torch.zeros(3))
            dist.broadcast(into if rank() else printed, 0)
            assert (into if rank() else printed).tolist() == [-1.0] * 3, into
            conjugate = torch.full((RANKS,), 1 + 2j).conj()
            part = torch.empty(1, dtype=torch.complex64)
            dist.reduce_scatter_single(part, conjugate) if hasattr(
                dist, "reduce_scatter_single"
            ) else dist.reduce_scatter_tensor(part, conjugate)
            assert part.item() == RANKS * (1 - 2j), part

        self.check(body)

    def test_works_that_are_dropped_end_and_hold_nothing(self) -> None:
        def body() -> None:
            peer = rank() ^ 1
            alive = weakref.WeakSet()
            for _ in range(300):
                sent, added, got = torch.ones(5000), torch.ones(5000), torch.empty(5000)
                alive.update((sent, added))
                dist.isend(sent, peer)
                dist.all_reduce(added, async_op=True)
                dist.recv(got, peer)
            del sent, added
            strided, received = torch.ones(8, 2)[:, 0], torch.ones(8, 2)[:, 0]
            dist.all_reduce(strided, async_op=True)
            dist.irecv(received, peer, tag=4)
            dist.send(torch.full((8,), float(RANKS)), peer, tag=4)
            for _ in range(300):
                dist.isend(torch.ones(1), peer)
                dist.recv(torch.empty(1), peer)
            dist.barrier()
            until = time.monotonic() + 60
            for copied_back in (strided, received):
                while copied_back.tolist() != [RANKS] * 8 and time.monotonic() < until:
                    time.sleep(0.01)
                assert copied_back.tolist() == [RANKS] * 8, copied_back
            assert len(alive) < 20, len(alive)

        self.check(body)

    def test_a_group_is_destroyed_while_a_receive_waits_for_nobody(self) -> None:
        def body() -> None:
            group = dist.new_group(timeout=timedelta(seconds=600))
            work = dist.irecv(torch.empty(3), (rank() + 1) % RANKS, group=group)
            dist.destroy_process_group(group)
            assert not work.is_completed()
            dist.barrier()  # a rank that ends would end the others' receives

        self.check(body)

    def test_lists_of_other_sizes_and_ranks_that_are_none_are_refused(self) -> None:
        def body() -> None:
            calls = (
                lambda: dist.scatter(torch.empty(4), [torch.empty(5)]),
                lambda: dist.gather(torch.empty(4), [torch.empty(3)]),
                lambda: dist.group.WORLD.split_group([0, 9]),
                lambda: dist.group.WORLD.split_group([]),
            )
            for index, call in enumerate(calls):
                try:
                    call()
                except ValueError as error:
                    assert any(word in str(error) for word in ("4 elements", "group of 1 ranks")), error
                else:
                    raise AssertionError(f"call {index} was not refused")

        run_ranks([1], body)

    def test_torch_logs_no_warnings_while_ranks_wait_for_each_other(self) -> None:
        def body() -> str:
            store = TorchStore(dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False))
            with tempfile.TemporaryFile() as file:
                stderr = os.dup(2)
                os.dup2(file.fileno(), 2)
                try:
                    store.wait("nobody sets it", 0.2)
                except TimeoutError as error:
                    assert "nobody sets it" in str(error), error
                else:
                    raise AssertionError("it is there")
                finally:
                    os.dup2(stderr, 2)
                file.seek(0)
                return file.read().decode()

        self.assertEqual(self.check(body, [1]), [""])

    def test_traffic_counts_bytes_inside_and_between_nodes(self) -> None:
        def body() -> tuple[int, int]:
            dist.all_reduce(torch.ones(1 << 16))
            moved = horing.torch.traffic()
            return moved.intra_sent_bytes, moved.inter_sent_bytes

        moved = self.check(body)
        self.assertTrue(all(inside > 0 for inside, between in moved))
        # Each of two nodes sends half of the data in each of two phases.
        self.assertEqual(sum(between for inside, between in moved), 2 << 18)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
