#!/usr/bin/env python3
"""`tools/bench/compare --rows PREFIX` keeps what was measured as rows for docs/results, and prints the same rows."""

import contextlib
import csv
import io
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parents[5] / "tools" / "bench"))
# pylint: disable=wrong-import-position
from comparison import report as comparison_report  # noqa: E402
from comparison import rows as comparison_rows  # noqa: E402
from comparison.model import Record, Sample, Scenario  # noqa: E402

MAIN = Scenario(
    "main", "4x4", 4, ("all_gather", "all_reduce"), (1 << 20,), ("auto", "ring"), True, "4x4, 4 NICs a node"
)
HEAD = ["run", "date", "cluster", "collective", "size"]


def sample(config, number, time_us):
    return Sample("main", config, "all_gather", 1 << 20, number, time_us)


class CompareRows(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.prefix = str(pathlib.Path(folder.name, "collectives"))

    def record(self, times=(9000.0, 10000.0, 11000.0)):
        record = Record("")
        record.facts = {"date": "2026-01-02", "command": "compare", "rounds": 3, "rail_mbit": 200}
        record.limits = [{"scenario": "main", "round": 0, "bytes_per_second": 100e6}]
        record.samples = [sample("HO-Ring auto", number, time) for number, time in enumerate(times)]
        record.samples += [
            sample("HO-Ring ring", 0, 40000.0),
            sample("MPICH", 0, 25000.0),
            sample("Gloo ring, all rails", 0, 20000.0),
        ]
        return record

    def rows(self, run, times=(9000.0, 10000.0, 11000.0)):
        comparison_rows.write(self.record(times), {"main": MAIN}, self.prefix, run)
        with open(f"{self.prefix}.csv", newline="") as each, open(f"{self.prefix}-libraries.csv", newline="") as every:
            return list(csv.reader(each)), list(csv.reader(every))

    def test_a_size_has_ours_the_limit_and_the_best_other_library(self):
        (head, row), _ = self.rows("first")
        self.assertEqual(head[:5], HEAD)
        self.assertEqual(
            row,
            [
                "first",
                "2026-01-02",
                "4x4, 4 NICs a node",
                "all_gather",
                "1 MiB",
                "7.864",
                "10",
                "0.786",
                "20 %",
                "3",
                "40",
                "",
                "Gloo ring, all rails",
                "20",
                "2.00",
            ],
        )

    def test_each_library_has_a_row_and_so_has_the_limit(self):
        _, (head, *rows) = self.rows("first")
        self.assertEqual(head[:5], HEAD)
        self.assertEqual(
            [row[5:7] for row in rows],
            [
                ["limit of the links", "7.864"],
                ["HO-Ring", "10"],
                ["flat ring, our library", "40"],
                ["MPICH", "25"],
                ["Gloo ring, all rails", "20"],
            ],
        )

    def test_a_run_replaces_its_own_rows_and_leaves_those_of_others(self):
        self.rows("first")
        self.rows("second")
        (_, *rows), _ = self.rows("first", (9500.0, 9500.0, 9500.0))
        self.assertEqual([(row[0], row[6]) for row in rows], [("second", "10"), ("first", "9.5")])

    def printed(self, record):
        """(what is printed, whether something was measured wrongly)"""
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            broken = comparison_report.report(record, {"main": MAIN})
        return output.getvalue(), broken

    def test_the_same_rows_are_printed_as_tables(self):
        text, broken = self.printed(self.record())
        self.assertFalse(broken)
        self.assertIn("| 1 MiB | 7.864 | 10 | 0.786 | 20 % | 3 | 40 | - | Gloo ring, all rails | 20 | 2.00 |", text)
        self.assertIn("| 1 MiB | MPICH | 25 | 0.315 |", text)

    def test_wrong_elements_and_a_share_above_1_are_broken_measurements(self):
        record = self.record()
        record.samples.append(Sample("main", "HO-Ring auto", "all_gather", 1 << 20, 3, 10000.0, 7))
        text, broken = self.printed(record)
        self.assertTrue(broken)
        self.assertIn("HO-Ring auto, all_gather, 1 MiB: 7 wrong elements", text)
        text, broken = self.printed(self.record((5000.0,)))
        self.assertTrue(broken)
        self.assertIn("all_gather, 1 MiB, HO-Ring auto: 1.573 of the limit, above 1", text)


if __name__ == "__main__":
    unittest.main()
