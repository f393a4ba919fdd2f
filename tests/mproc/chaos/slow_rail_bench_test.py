#!/usr/bin/env python3
"""usage: slow_rail_bench_test.py BUILD: tools/bench/slow-rail, as short as it can be. No figure decides."""
import csv
import pathlib
import subprocess
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).parents[3] / "tools" / "bench" / "slow-rail"
BUILD = pathlib.Path(sys.argv.pop(1))
SHORT = ["--runs", "1", "--before-s", "1", "--after-s", "2", "--steady-s", "1"]


class SlowRailBench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.files = [pathlib.Path(folder.name, name) for name in ("rows.csv", "series.csv")]

    def run_bench(self, *options):
        rows, series = self.files
        return subprocess.run([sys.executable, BENCH, "--build", BUILD, "--rows", rows, "--series", series, *options],
                              capture_output=True, text=True)

    def saved(self):
        return [list(csv.DictReader(file.open(encoding="utf-8"))) for file in self.files]

    def test_each_size_has_a_row_and_its_looks(self):
        done = self.run_bench(*SHORT, "--sizes", "32K,64K")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows, series = self.saved()
        sizes = ["32 KiB", "64 KiB"]
        self.assertEqual([row["call"] for row in rows], sizes)
        for row in rows:
            self.assertIn(row["call"], done.stdout)
            self.assertTrue(float(row["before MB/s"]) > 0 and float(row["off"]) > 0, row)
            looks = [look for look in series if look["call"] == row["call"]]
            self.assertTrue(float(looks[0]["s"]) < 0 < float(looks[-1]["s"]), looks)

    def test_what_was_measured_stays_where_a_later_size_fails(self):
        done = self.run_bench(*SHORT, "--sizes", "64K,256M")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("give smaller --sizes", done.stderr)
        self.assertEqual([row["call"] for row in self.saved()[0]], ["64 KiB"])

    def test_a_job_that_fails_ends_the_bench_with_its_output(self):
        done = self.run_bench(*SHORT, "--sizes", "64K", "--rail-mbit", "-1")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("--rail-rate", done.stderr)

    def test_times_that_contradict_each_other_are_refused(self):
        done = self.run_bench("--after-s", "2", "--steady-s", "3")
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("--steady-s", done.stderr)


if __name__ == "__main__":
    unittest.main()
