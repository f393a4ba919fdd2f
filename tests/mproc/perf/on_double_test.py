#!/usr/bin/env python3
"""usage: on_double_test.py HORING ALL_GATHER_PERF REDUCE_SCATTER_PERF ALL_REDUCE_PERF: the perf programs with memory
of a device, on the double of the CUDA driver.

HORING_TEST_CUDA_MODE (eager, random, lazy): all programs and groups that way. Not set: each another way.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HORING, ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE = (pathlib.Path(word).resolve() for word in sys.argv[1:5])
del sys.argv[1:5]
MODE = os.environ.get("HORING_TEST_CUDA_MODE")
MODES = ("eager", "random", "lazy")
GROUPS = ("2x2", "1x4")
# One element in all, less than a piece, several pieces, and more than is copied at once.
SIZES = "16:2,4000:3,300000:2,5M:1"
COMMON = ["-w", "1", "--no-link-limit", "--sizes", SIZES]


class OnDouble(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.report = pathlib.Path(folder.name, "report.json")

    def run_job(self, program, groups, *options, mode=None, environment=None):
        """What the job said, when it has ended."""
        return subprocess.run(
            [HORING, "run", "-n", groups, "--emulate", "none", "--timeout", "600", "--quiet", "--",
             program, *options], capture_output=True, text=True,
            env={**os.environ, "HORING_TEST_CUDA_MODE": MODE or mode or "eager", **(environment or {})})

    def measure(self, program, groups, memory, mode=None, more=()):
        """The report, in which every element was right."""
        answer = self.run_job(program, groups, *COMMON, "--memory", memory, "-J", self.report, *more, mode=mode)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertNotIn("CUDA double", answer.stderr)
        self.assertRegex(answer.stdout, rf"# memory {memory}\b")
        self.assertIn("Out of bounds values : 0 OK", answer.stdout)
        report = json.loads(self.report.read_text())
        self.assertEqual(report["config"]["memory"], memory)
        return report

    @staticmethod
    def sent(report):
        """By size, type and placement: what a rank sends in an operation, between groups and inside."""
        return {(row["size"], row["redop"], at_index): (row[at_index]["phases"]["inter_sent_bytes"],
                                                     row[at_index]["phases"]["intra_sent_bytes"])
                for row in report["results"] for at_index in ("out_of_place", "in_place") if row[at_index]}

    def test_results_are_right_and_the_same_bytes_go_over_each_nic(self):
        turn = 0
        for program in (ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE):
            for groups in GROUPS:
                mode = MODES[turn % len(MODES)]
                turn += 1
                with self.subTest(program=program.name, groups=groups, mode=MODE or mode):
                    host = self.sent(self.measure(program, groups, "host"))
                    device = self.sent(self.measure(program, groups, "device", mode))
                    self.assertEqual(len(device), 8)  # four sizes, out of place and in place
                    self.assertEqual(device, host)
                    between = [inter for inter, _ in device.values()]
                    self.assertEqual(all(count > 0 for count in between), groups == "2x2")

    def test_sends_from_the_device_meet_receives_of_the_host(self):
        for program in (ALL_GATHER, ALL_REDUCE):
            with self.subTest(program=program.name):
                report = self.measure(program, "2x2", "mixed", "lazy")
                self.assertTrue(all(row["in_place"] is None for row in report["results"]))
                host = self.sent(self.measure(program, "2x2", "host", more=("--place", "out")))
                self.assertEqual(self.sent(report), host)

    def test_all_operations_of_a_16_bit_type_are_right(self):
        answer = self.run_job(ALL_REDUCE, "1x2", "-w", "0", "--no-link-limit", "--sizes", "4K:1", "--memory", "device",
                              "-d", "bfloat16", "-o", "all")
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertIn("premul_sum", answer.stdout)
        self.assertIn("Out of bounds values : 0 OK", answer.stdout)

    def test_a_driver_call_that_fails_ends_the_job_with_its_name(self):
        # The first copy is the program's, who writes what it sends; the third one is the library's.
        for k, named in ((1, r"device \d: "), (3, r"all_reduce #1 .*: device \d: ")):
            with self.subTest(k=k):
                answer = self.run_job(ALL_REDUCE, "2x1", *COMMON, "--memory", "device",
                                      environment={"HORING_TEST_CUDA_FAIL": f"copy_async:{k}:1"})
                self.assertEqual(answer.returncode, 1, answer.stderr)
                self.assertRegex(answer.stderr, rf"all_reduce_perf: .*{named}cuMemcpyAsync: ")

    def test_without_a_device_one_line_says_what_is_missing(self):
        answer = self.run_job(ALL_REDUCE, "2x1", *COMMON, "--memory", "device",
                              environment={"HORING_TEST_CUDA_DEVICES": "0"})
        self.assertEqual(answer.returncode, 2, answer.stderr)
        lines = [line for line in answer.stderr.splitlines() if "_perf" in line]
        self.assertEqual(len(lines), 1, answer.stderr)
        self.assertRegex(lines[0], r"all_reduce_perf: --memory device: .*rank 0: .*CUDA_VISIBLE_DEVICES")


if __name__ == "__main__":
    unittest.main()
