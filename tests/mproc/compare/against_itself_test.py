#!/usr/bin/env python3
"""usage: against_itself_test.py BUILD: `tools/bench/compare --against` of a build with itself, and its interruption."""
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

COMPARE = pathlib.Path(__file__).parents[3] / "tools" / "bench" / "compare"
BUILD = pathlib.Path(sys.argv.pop(1))
SMALL = ["--links", "loopback,one_node", "--shape", "2x1", "--collectives", "all_reduce", "--sizes", "64K,1M",
         "--rounds", "1", "--calls", "10"]


class AgainstItself(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.report = pathlib.Path(folder.name, "report")
        self.command = [sys.executable, COMPARE, "--build", BUILD, "--against", BUILD, *SMALL, "--report", self.report]

    def test_a_report_has_the_lines_of_both(self):
        answer = subprocess.run(self.command, capture_output=True, text=True)
        self.assertIn(answer.returncode, (0, 1), answer.stderr)  # 1: one of the two happened to be slower
        content = json.loads(self.report.with_suffix(".json").read_text())
        self.assertEqual([(line["link"], line["what"]) for line in content["lines"]],
                         [(link, size) for link in ("loopback", "one_node") for size in ("8 B", "64 KiB", "1 MiB")] +
                         [(link, what) for link in ("loopback", "one_node") for what in ("10,000 calls of 8 B", "GB")])
        for line in content["lines"]:
            self.assertEqual(line["ratio"]["pairs"], 1)
            self.assertTrue(line["this"] > 0 and line["other"] > 0, line)
        failures = [result["failure"] for job in content["jobs"] for side in ("this", "other") for result in job[side]]
        self.assertEqual(failures, [""] * 12)
        page = self.report.with_suffix(".md").read_text()
        self.assertIn("both are the same build", page)
        self.assertIn(" of 10 lines met", page)
        self.assertIn(page, answer.stdout)
        self.assertIn("[12/12]", answer.stderr)

    def test_an_interrupt_ends_the_comparison(self):
        # A shell starts what runs in its background with interrupts ignored, which lasts. The first job lasts too.
        with subprocess.Popen([*self.command, "--calls", "20000000"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True,
                              preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as process:
            for line in process.stderr:
                if line.startswith("[1/12]"):
                    break
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate()
        self.assertEqual((process.returncode, output), (130, ""), errors)
        self.assertIn("tools/bench/compare: interrupted", errors)
        self.assertFalse(self.report.with_suffix(".json").exists())


if __name__ == "__main__":
    unittest.main()
