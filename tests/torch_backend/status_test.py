"""A program's groups as one job: what `horing status` and records show of it. HORING_PROGRAM asks the ranks."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import pickle
import subprocess
import tempfile
import time
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist

from horing import flight_recorder
from horing.torch.job import part_of_job
from ranks import SECONDS, run_ranks

NODES = [2, 2]
PROGRAM = os.environ.get("HORING_PROGRAM", "horing")


def rank() -> int:
    return dist.get_rank()


class Number(unittest.TestCase):
    def test_all_groups_of_a_store_have_one_number_until_the_program_starts_again(self) -> None:
        store = dist.HashStore()
        first = part_of_job(dist.PrefixStore("a", store), [0, 1], 4)
        other = part_of_job(dist.PrefixStore("b", dist.PrefixStore("c", store)), range(4), 4)
        assert first is not None and other is not None
        self.assertEqual((first.size, first.ranks, other.ranks), (4, [0, 1], [0, 1, 2, 3]))
        self.assertEqual(first.job, other.job)
        self.assertNotEqual(first.job, 0)
        with mock.patch.dict(os.environ, TORCHELASTIC_RESTART_COUNT="1"):
            again = part_of_job(store, [0], 4)
        assert again is not None
        self.assertNotEqual(again.job, first.job)
        apart = part_of_job(dist.HashStore(), [0], 4)
        assert apart is not None
        self.assertNotEqual(apart.job, first.job)

    def test_a_store_that_agrees_on_nothing_leaves_groups_apart(self) -> None:
        class Plain(dist.Store):
            pass

        with self.assertLogs("horing", "INFO") as said:
            self.assertIsNone(part_of_job(dist.PrefixStore("a", Plain()), [0], 1))
        self.assertIn("shows each group as a job", said.output[0])


def hang() -> list[str]:
    """Rank 3 does not make a call in its half of the ranks, until the test has looked."""
    halves = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    mine = halves[rank() // 2]
    dist.all_reduce(torch.ones(4))
    dist.barrier()
    if rank() == 3:
        until = time.monotonic() + SECONDS
        while not pathlib.Path(os.environ["LOOKED"]).exists():
            assert time.monotonic() < until
            time.sleep(0.02)
    dist.all_reduce(torch.ones(4), group=mine)
    dist.barrier()
    return [mine.group_name]


class Groups(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory(prefix="horing-status-")
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        self.records = self.scratch / "records"
        self.records.mkdir()
        variables = mock.patch.dict(os.environ, {
            "HORING_STATUS_DIR": str(self.scratch / "sockets"), "HORING_RECORD_DIR": str(self.records),
            "LOOKED": str(self.scratch / "looked"),
        })
        variables.start()
        self.addCleanup(variables.stop)

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([PROGRAM, "status", *arguments], capture_output=True, text=True, timeout=SECONDS)

    def view(self) -> Any:
        answer = self.ask("--json")
        return json.loads(answer.stdout) if answer.returncode == 0 else None

    def once(self, states: list[str]) -> Any:
        """The job, when its ranks are in these states, and it is said who is waited for."""
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            view = self.view()
            if view and view["waited_for"] and [each["state"] for each in view["ranks"]] == states and all(
                len(each["report"]["communicators"]) == 2 for each in view["ranks"]
            ):
                return view
            time.sleep(0.05)
        raise AssertionError(self.ask().stdout)

    def run_and_look(self, look: Callable[[Any], None], **options: Any) -> list[Any]:
        def looked(_: list[int]) -> None:
            try:
                look(self.once(["waits", "waits", "waits", "idle"]))
            finally:
                pathlib.Path(os.environ["LOOKED"]).touch()

        return run_ranks(NODES, hang, started=looked, **options)

    def check(self, view: Any) -> None:
        """One job, each rank once, and rank 3 by its number in the job, which is 1 in its group."""
        self.assertEqual([each["rank"] for each in view["ranks"]], [0, 1, 2, 3])
        self.assertEqual(view["waited_for"], [3])
        keys: dict[str, set[int]] = {}
        for each in view["ranks"]:
            report = each["report"]
            self.assertEqual((report["rank"], report["world_size"], report["job"]), (each["rank"], 4, view["job"]))
            for communicator in report["communicators"]:
                keys.setdefault(communicator["key"], set()).add(each["rank"])
        self.assertEqual(sorted(map(sorted, keys.values())), [[0, 1], [0, 1, 2, 3], [2, 3]])
        world, half = view["ranks"][2]["report"]["communicators"]
        self.assertEqual((world["size"], half["size"]), (4, 2))
        (under_way,) = [each for each in half["operations"] if each["ended_ns"] == 0]
        self.assertEqual((under_way["call"], under_way["waits_for"]["rank"]), ("all_reduce", 3))

    def test_a_rank_that_hangs_in_a_group_is_named_by_its_number_in_the_job(self) -> None:
        tables, written = [], []

        def look(view: Any) -> None:
            self.check(view)
            self.assertEqual(view["ranks"][2]["report"]["communicators"][1]["ranks"], [2, 3])
            tables.append(self.ask().stdout)
            written.append(self.ask("--record"))

        names = [name for (name,) in self.run_and_look(look)]
        self.assertRegex(tables[0], r"(?m)^job [0-9a-f]{16}: 4 of 4 ranks answer")
        self.assertRegex(tables[0], rf"(?m)^ +2 .* waits +all_reduce #1 .* in group '{names[2]}' of 2 ranks .* rank 3, ")
        self.assertRegex(tables[0], r"(?m)^Ranks wait in the end for rank 3 \(\S+\): idle")
        self.assertEqual(written[0].returncode, 0, written[0].stdout)
        self.check_records(names)

    def check_records(self, names: list[str]) -> None:
        """The files are of one job, and become groups whose names are the same on all their ranks."""
        self.assertEqual(len(list(self.records.iterdir())), 4)
        out = self.scratch / "out"
        with contextlib.redirect_stdout(None):
            self.assertEqual(flight_recorder.main([str(self.records), "--out", str(out)]), 0)
        dumps = [pickle.loads((out / f"horing_{each}").read_bytes()) for each in range(4)]
        # Without those of further channels.
        all_groups = [{key: group for key, group in dump["pg_config"].items() if "." not in key} for dump in dumps]
        for each, groups in enumerate(map(dict, all_groups)):
            self.assertEqual(groups.pop("0"), {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"})
            (half,) = groups.values()
            self.assertEqual((half["desc"], half["ranks"]), (names[each], "[0, 1]" if each < 2 else "[2, 3]"))
            self.assertEqual({"0": all_groups[each]["0"], **groups}, all_groups[each ^ 1])

    def test_ranks_of_another_host_are_asked_over_the_group_of_all(self) -> None:
        there = str(self.scratch / "there")

        def look(view: Any) -> None:
            self.check(view)
            self.assertEqual([each["elsewhere"] for each in view["ranks"]], [False, False, True, True])
            self.assertNotIn("", [each["host"] for each in view["ranks"]])

        self.run_and_look(look, variables=lambda each: {"HORING_STATUS_DIR": there} if each > 1 else {})


if __name__ == "__main__":
    unittest.main(verbosity=2)
