"""The end of programs with operations that nobody has waited for: Python's own end, from the last line
of a script to the last destructor.

Ranks are forked from a process that has imported torch, and fall off the end of this file as those of any
program do. That process prints what became of each as JSON, and the tests look at it."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from datetime import timedelta
from typing import Any

SECONDS = 60  # for hangs: an open operation has one
held: list[Any] = []  # a global, which is there until Python clears the modules


# --- what the ranks of a case do. They do not import horing.torch: `import torch` has registered it.


def hold_a_work(rank: int) -> None:
    held.append(dist.all_reduce(torch.ones(1 << 16), async_op=True))


def destroy_what_has_not_ended(rank: int) -> None:
    hold_a_work(rank)
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        hold_a_work(rank)  # rank 1 takes no part
        store.set("begun", "")
    store.wait(["begun"])
    dist.destroy_process_group()


def hold_results_that_are_copied_back(rank: int) -> None:
    column = torch.ones(8, 2)[:, 0]
    held.append(dist.all_reduce(column, async_op=True))
    held.append(dist.group.WORLD.recv([column], rank, 5))  # nobody sends it


def hold_a_future_with_a_callback(rank: int) -> None:
    future = dist.group.WORLD.recv([torch.empty(3)], rank, 5).get_future()
    held.append(future.then(lambda done: done.value()[0] + 1))


def leave_rank_1_alone(rank: int) -> None:
    if rank == 0:
        hold_a_work(rank)
        return
    try:
        dist.recv(torch.empty(1), 0, tag=7)  # until another rank ends it
    except RuntimeError as error:
        print(error)


def are_interrupted(rank: int) -> None:
    hold_a_future_with_a_callback(rank)
    hold_a_work(rank)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.kill(os.getpid(), signal.SIGINT)
    dist.recv(torch.empty(1), rank, tag=7)


CASES = {  # and how many ranks, each on a node of its own
    "hold_a_work": (hold_a_work, 2),
    "destroy_what_has_not_ended": (destroy_what_has_not_ended, 2),
    "hold_results_that_are_copied_back": (hold_results_that_are_copied_back, 1),
    "hold_a_future_with_a_callback": (hold_a_future_with_a_callback, 1),
    "leave_rank_1_alone": (leave_rank_1_alone, 2),
    "are_interrupted": (are_interrupted, 1),
}


def run_rank(case: Callable[[int], None], ranks: int, rank: int, folder: str) -> None:
    output = os.open(f"{folder}/{rank}", os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ["HORING_HOST_ID"] = f"node{rank}"
    torch.set_num_threads(1)
    dist.init_process_group(
        "horing", rank=rank, world_size=ranks, store=dist.FileStore(f"{folder}/store", ranks),
        timeout=timedelta(seconds=10 * SECONDS),
    )
    case(rank)


def status_of(pid: int, until: float) -> str:
    """How it ended: 0, 1, -2 for a signal's number; or that it did not."""
    with contextlib.closing(os.fdopen(os.pidfd_open(pid), "rb", buffering=0)) as file:
        poll = select.poll()
        poll.register(file, select.POLLIN)
        if not poll.poll(max(0.0, 1000 * (until - time.monotonic()))):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return f"still there after {SECONDS} s"
    return str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def run_cases(root: str) -> None:
    """Returns in each rank, and in the process that has started them once they have ended."""
    started = []
    for name, (case, ranks) in CASES.items():
        folder = f"{root}/{name}"
        os.mkdir(folder)
        for rank in range(ranks):
            pid = os.fork()
            if pid == 0:
                run_rank(case, ranks, rank, folder)
                return
            started.append((pid, name, pathlib.Path(folder, str(rank))))
    until = time.monotonic() + SECONDS
    ended: dict[str, list[tuple[str, str]]] = {}
    for pid, name, output in started:
        status = status_of(pid, until)
        ended.setdefault(name, []).append((status, output.read_text()))
    print(json.dumps(ended))


class Exits(unittest.TestCase):
    ended: dict[str, list[tuple[str, str]]]

    @classmethod
    def setUpClass(cls) -> None:
        with tempfile.TemporaryDirectory() as root:
            command = [sys.executable, __file__, root]
            done = subprocess.run(command, capture_output=True, text=True, timeout=5 * SECONDS)
        assert done.returncode == 0, done.stderr
        cls.ended = json.loads(done.stdout)

    def check(self, case: str, status: str = "0") -> list[str]:
        """What the ranks printed, each of which ended."""
        results = self.ended[case]
        for found, text in results:
            self.assertEqual(found, status, results)
            self.assertNotIn("Exception ignored", text)
        return [text for _, text in results]

    def test_a_work_that_nobody_waits_for_ends_with_the_program(self) -> None:
        self.check("hold_a_work")

    def test_works_of_a_destroyed_group_end_whoever_took_no_part(self) -> None:
        self.check("destroy_what_has_not_ended")

    def test_works_that_take_a_thread_when_they_are_dropped_start_none(self) -> None:
        self.check("hold_results_that_are_copied_back")

    def test_a_thread_that_waits_for_a_future_is_through_before_python_ends(self) -> None:
        self.check("hold_a_future_with_a_callback")

    def test_a_rank_that_took_no_part_learns_who_left_with_which_operation(self) -> None:
        reported = self.check("leave_rank_1_alone")[1]
        self.assertRegex(reported, "rank 0 .*its program ended with all_reduce not complete")

    def test_an_interrupted_program_ends(self) -> None:
        self.assertIn("KeyboardInterrupt", self.check("are_interrupted", "-2")[0])


if __name__ == "__main__":
    if len(sys.argv) == 2:
        import torch
        import torch.distributed as dist

        run_cases(sys.argv[1])
    else:
        unittest.main(verbosity=2)
