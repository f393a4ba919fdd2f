"""What ranks are told where one of them calls something else, ends, or does not come."""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
import time
import unittest
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import horing.torch
from horing import program_exit
from ranks import TIMEOUT, run_ranks

NODES = [2, 2]
RANKS = 4


def rank() -> int:
    return dist.get_rank()


class Errors(unittest.TestCase):
    """Every rank gets an error that names the cause; nobody waits for the timeout of 60 s."""

    def assert_fails(self, body: Any, *words: str, ranks: Any = range(RANKS), **options: Any) -> None:
        def run() -> Any:
            started = time.monotonic()
            try:
                body()
            except Exception as error:
                dist.distributed_c10d._world.pg_map.clear()
                return type(error).__name__, str(error), time.monotonic() - started
            return "nothing", "", 0.0

        def leave() -> Any:
            store = dist.distributed_c10d._get_default_store()
            result = run()
            store.set(f"failed {rank()}", "")
            # The others' errors are their own, not that this rank has left.
            store.wait([f"failed {index}" for index in ranks], timedelta(seconds=300))
            dist.distributed_c10d._update_default_pg(None)
            return result

        results = run_ranks(NODES, leave, **options)
        for index in ranks:
            kind, text, seconds = results[index]
            self.assertEqual(kind, "DistBackendError", (index, kind, text))
            for word in words:
                self.assertIn(word, text, index)
            self.assertLess(seconds, TIMEOUT / 2, "it was waited for the deadline")

    def test_counts_that_differ_are_named_on_every_rank(self) -> None:
        self.assert_fails(lambda: dist.all_reduce(torch.ones(8 + (rank() == 2))), "8", "9")

    def test_types_that_differ_are_named_on_every_rank(self) -> None:
        kinds = (torch.float32, torch.float64)
        self.assert_fails(
            lambda: dist.all_reduce(torch.ones(8, dtype=kinds[rank() == 3])), "float", "double"
        )

    def test_calls_that_differ_are_named_on_every_rank(self) -> None:
        def body() -> None:
            if rank() == 1:
                dist.broadcast(torch.ones(8), 0)
            else:
                dist.all_reduce(torch.ones(8))

        self.assert_fails(body, "broadcast", "all_reduce")

    def test_a_rank_that_dies_is_named_on_the_others(self) -> None:
        def body() -> None:
            dist.all_reduce(torch.ones(8))
            if rank() == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            dist.all_reduce(torch.ones(8))

        self.assert_fails(body, "rank 3", ranks=range(3), may_die=[3])

    def test_a_rank_that_dies_in_training_is_named_by_ddp(self) -> None:
        def body() -> Any:
            model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
            try:
                for step in range(100):
                    if step == 2 and rank() == 3:
                        os.kill(os.getpid(), signal.SIGKILL)
                    model(torch.ones(2, 4)).sum().backward()
            except RuntimeError as error:
                return type(error).__name__, str(error)
            return "", "nothing was raised"

        for kind, text in run_ranks(NODES, body, may_die=[3])[:3]:
            self.assertEqual(kind, "DistBackendError")
            self.assertIn("rank 3", text)
            self.assertIn("horing: all_reduce", text)

    def test_the_first_cause_reaches_ranks_that_share_no_group_with_it(self) -> None:
        def body(victim: int) -> str:
            mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("inter", "intra"))
            try:
                for step in range(100):
                    if step == 2 and rank() == victim:
                        os.kill(os.getpid(), signal.SIGKILL)
                    for dimension in ("intra", "inter"):
                        dist.all_reduce(torch.ones(8), group=mesh.get_group(dimension))
            except dist.DistBackendError as error:
                return str(error)
            return "nothing was raised"

        for victim in (0, 3):
            texts = run_ranks(NODES, body, victim, may_die=[victim])
            for other in set(range(RANKS)) - {victim}:
                blamed = re.findall(r"rank (\d) \([^()]*, pid", texts[other])
                self.assertEqual(blamed[:1], [str(victim)], texts[other])
                self.assertRegex(texts[other], "of group 'mesh_int(er|ra)'")

    def test_who_shares_no_group_with_a_rank_that_went_hears_of_it_from_the_others(self) -> None:
        others = [1, 2, 3]

        def body(how: str) -> str:
            mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("inter", "intra"))
            text = "nothing was raised"
            try:
                for step in range(100):
                    if step == 2 and rank() == 0:
                        if how == "exit":
                            program_exit._end()
                        os.kill(os.getpid(), signal.SIGKILL)
                    for dimension in ("intra", "inter"):
                        dist.all_reduce(torch.ones(8), group=mesh.get_group(dimension))
            except dist.DistBackendError as error:
                text = str(error)
            # Nobody hears it from the end of a neighbour's process.
            store = dist.distributed_c10d._get_default_store()
            store.set(f"failed {rank()}", "")
            store.wait([f"failed {each}" for each in others], timedelta(seconds=TIMEOUT / 4))
            return text

        for how in ("kill", "exit"):
            texts = run_ranks(NODES, body, how, may_die=[0])
            for other in others:
                blamed = re.findall(r"rank (\d) \([^()]*, pid", texts[other])
                self.assertEqual(blamed[:1], ["0"], (how, texts[other]))

    def test_a_circle_over_two_groups_is_named_with_both(self) -> None:
        def body() -> str:
            groups = [dist.new_group(group_desc=name) for name in ("first", "second")]
            options = dist.AllreduceOptions()
            if rank() == 0:
                options.timeout = timedelta(seconds=4)
            text = "nothing was raised"
            dist.barrier()
            try:
                groups[rank()].allreduce([torch.ones(8)], options).wait()
            except dist.DistBackendError as error:
                text = str(error)
            store = dist.distributed_c10d._get_default_store()
            store.set(f"failed {rank()}", "")
            store.wait(["failed 0", "failed 1"], timedelta(seconds=TIMEOUT / 4))
            return text

        for text in run_ranks([1, 1], body):
            self.assertIn("ranks wait for each other in a circle", text)
            self.assertIn("rank 1 is in all_reduce #1 of group 'second', which rank 0 has not entered", text)
            self.assertIn("group 'first' (rank", text)

    def test_ranks_of_a_group_are_named_by_their_numbers_in_the_job(self) -> None:
        def body(made: str) -> tuple[str, int]:
            group = dist.new_group([1, 3]) if made == "new" else dist.group.WORLD.split_group([1, 3])
            store = dist.distributed_c10d._get_default_store()
            dist.barrier()
            if rank() % 2 == 0:
                # Rank 0 tells of the lost rank: who leaves before it is lost tells nobody.
                store.wait(["rank 1 has its error"], timedelta(seconds=300))
                return "", os.getpid()
            assert "its ranks are global ranks 1, 3" in repr(group), repr(group)
            if rank() == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                group.allreduce(torch.ones(8)).wait()
            except dist.DistBackendError as error:
                return str(error), os.getpid()
            finally:
                store.set("rank 1 has its error", "")
            return "nothing was raised", os.getpid()

        for made in ("new", "split"):
            text, own = run_ranks(NODES, body, made, may_die=[3])[1]
            # Of the two ranks of the group, 0 and 1 there: this one, and the one that is gone.
            named = set(re.findall(r"rank (\d+) \([^()]*, pid (\d+)\)", text))
            lost = {number for number, pid in named if int(pid) != own}
            self.assertEqual(lost, {"3"}, text)
            self.assertLessEqual({number for number, pid in named if int(pid) == own}, {"1"}, text)

    def test_who_has_left_a_group_is_named_alike_by_the_error_and_the_log(self) -> None:
        def body(made: str) -> tuple[str, str]:
            group = dist.new_group([1, 3]) if made == "new" else dist.group.WORLD.split_group([1, 3])
            store = dist.distributed_c10d._get_default_store()
            dist.barrier()
            if rank() == 3:
                # A call that is made after it has left is refused, and logs nothing.
                store.wait(["rank 1 has begun"], timedelta(seconds=300))
                group.shutdown()
            if rank() != 1:
                store.wait(["rank 1 has its error"], timedelta(seconds=300))
                return "", ""
            with tempfile.TemporaryFile("w+") as log:
                own = os.dup(2)
                os.dup2(log.fileno(), 2)
                try:
                    work = group.allreduce(torch.ones(8))
                    store.set("rank 1 has begun", "")
                    work.wait()
                    text = "nothing was raised"
                except dist.DistBackendError as error:
                    text = str(error)
                finally:
                    os.dup2(own, 2)
                    store.set("rank 1 has its error", "")
                log.seek(0)
                return text, log.read()

        for made in ("new", "split"):
            reported = run_ranks(NODES, body, made)[1]
            for text in reported:
                self.assertRegex(text, r"global rank 3 has left .* the output of global rank 3 \([^()]*, pid \d+\) for")
            self.assertRegex(reported[1], r"\[horing rank 1\] .*global rank 3 has left")

    def test_a_rank_that_does_not_make_a_group_is_named_after_its_timeout(self) -> None:
        def body() -> None:
            if rank() == 2:
                store = dist.distributed_c10d._get_default_store()
                store.wait([f"failed {index}" for index in (0, 1, 3)], timedelta(seconds=300))
                raise RuntimeError("late")
            dist.new_group(timeout=timedelta(seconds=2))

        self.assert_fails(body, "making a group of 4 ranks", ranks=(0, 1, 3))

    def test_a_rank_that_does_not_come_is_named_after_the_timeout(self) -> None:
        def body() -> None:
            store = dist.distributed_c10d._get_default_store()
            dist.barrier()
            if rank() == 1:
                store.wait([f"failed {each}" for each in (0, 2, 3)], timedelta(seconds=300))
            horing.torch.monitored_barrier(timeout=timedelta(seconds=2))

        self.assert_fails(body, "rank 1", " timeout ")

    def test_an_aborted_group_fails_everywhere_and_afterwards(self) -> None:
        def body() -> None:
            if rank() == 0:
                time.sleep(0.5)
                dist.group.WORLD.abort()
            dist.all_reduce(torch.ones(8))

        self.assert_fails(body, "abort")

    def test_a_result_that_cannot_be_copied_back_ends_its_own_call_alone(self) -> None:
        def body() -> None:
            broken = dist.broadcast(torch.zeros(1).expand(3), 0, async_op=True).get_future()
            good = torch.ones(2)
            later = dist.all_reduce(good, async_op=True).get_future()
            try:
                broken.wait()
            except RuntimeError as error:
                assert "broadcast" in str(error), error
            else:
                raise AssertionError("it was copied")
            later.wait()
            assert good.tolist() == [2.0, 2.0], good

        run_ranks([2], body)

    def test_a_tensor_of_another_kind_of_device_is_refused(self) -> None:
        def body() -> None:
            for call in (dist.all_reduce, lambda tensor: dist.broadcast(tensor, 0)):
                try:
                    call(torch.ones(3, device="meta"))
                except ValueError as error:
                    assert "on meta" in str(error) and "CUDA devices" in str(error), error
                else:
                    raise AssertionError("nothing was refused")

        run_ranks([1], body)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
