#!/usr/bin/env python3
"""tests/device/run with parts of the test's own: what fails, what takes too long, what is missing, no GPU."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
# pylint: disable=wrong-import-position
from processes import wait_for_end  # noqa: E402

RUN = pathlib.Path(__file__).with_name("run")
GPU = {"name": "gpu", "command": ["sh", "-c", "echo 'Some GPU, driver of CUDA 13.0'"], "seconds": 30, "decides": True}


def shell(name, text, **more):
    return {"name": name, "command": ["sh", "-c", text], "seconds": 30, **more}


class Suite(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.report = self.folder / "report.md"

    def run_parts(self, *parts, arguments=()):
        table = self.folder / "parts.json"
        table.write_text(json.dumps({"parts": list(parts)}))
        return subprocess.run([sys.executable, RUN, self.folder, "--out", self.report, "--parts", table, *arguments],
                              capture_output=True, text=True, timeout=120)

    def rows(self):
        """{part: result} of the report's table."""
        rows = re.findall(r"^\| (\S+) \| (.*) \| [\d.]+ \| `.*` \|$", self.report.read_text(), re.MULTILINE)
        return dict(rows)

    def test_a_failed_part_is_told_and_others_run(self):
        answer = self.run_parts(GPU, shell("broken", "echo why it broke; exit 3"), shell("after", "echo copy: 7 GB/s",
                                                                                         figures="GB/s"))
        self.assertEqual(answer.returncode, 1, answer.stderr)
        self.assertEqual(self.rows(), {"gpu": "ok", "broken": "FAILED: status 3", "after": "ok"})
        text = self.report.read_text()
        self.assertRegex(text, r"\d{4}-\d\d-\d\d \d\d:\d\d UTC")
        self.assertIn("3 parts, 1 failed", text)
        self.assertIn("    why it broke\n", text)
        self.assertIn("## after\n\n    copy: 7 GB/s\n", text)

    def test_all_parts_that_pass_give_status_zero(self):
        answer = self.run_parts(GPU, shell("fine", "true"))
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertIn("0 failed", self.report.read_text())
        self.assertEqual([path.name for path in self.folder.iterdir() if "report" in path.name], ["report.md"])

    def test_a_part_without_end_is_ended_with_its_children(self):
        started = self.folder / "pid"
        seconds = 1
        while not started.exists():  # a busy machine may not have started it in that time
            answer = self.run_parts(GPU, shell("hangs", f"(sleep 3600) & echo $! >{started}.new; "
                                               f"mv {started}.new {started}; wait", seconds=seconds),
                                    shell("after", "true"))
            self.assertEqual(answer.returncode, 1, answer.stderr)
            self.assertEqual(self.rows(), {"gpu": "ok", "hangs": f"FAILED: no end within {seconds} s", "after": "ok"})
            seconds *= 2
        wait_for_end(started.read_text().strip())

    def test_parts_beyond_the_time_for_all_fail(self):
        answer = self.run_parts(GPU, shell("hangs", "sleep 3600"), shell("late", "true"), arguments=["--seconds", "2"])
        self.assertEqual(answer.returncode, 1, answer.stderr)
        over = "FAILED: not run, the 2 s for all parts are over"
        self.assertRegex(self.rows()["hangs"], rf"^(FAILED: no end within \d s|{over})$")
        self.assertEqual(self.rows()["late"], over)

    def test_without_a_gpu_nothing_else_runs(self):
        answer = self.run_parts({**GPU, "command": ["sh", "-c", "echo no driver; exit 77"]},
                                shell("never", f"touch {self.folder}/ran"))
        self.assertEqual((answer.returncode, answer.stderr), (77, ""))
        self.assertIn("skipped: no driver", answer.stdout)
        self.assertFalse(self.report.exists() or (self.folder / "ran").exists())

    def test_what_is_not_installed_is_skipped_and_said(self):
        answer = self.run_parts(GPU, shell("tool", "exit 1", needs=["no-such-program"]),
                                shell("module", "exit 1", needs=[{"python": "import no_such_module"}]),
                                shell("itself", "echo not here; exit 77"),
                                shell("fine", "true", needs=["sh", {"python": "import sys"}]))
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertEqual(self.rows()["tool"], "skipped: no-such-program is not installed")
        self.assertTrue(self.rows()["module"].startswith("skipped: not here: import no_such_module"))
        self.assertEqual(self.rows()["itself"], "skipped: not here")
        self.assertEqual(self.rows()["fine"], "ok")

    def test_a_program_that_is_missing_fails_its_part(self):
        answer = self.run_parts(GPU, {"name": "missing", "command": ["{build}/no/program"], "seconds": 5})
        self.assertEqual(answer.returncode, 1, answer.stderr)
        self.assertEqual(self.rows()["missing"], f"FAILED: {self.folder.resolve()}/no/program: No such file or directory")

    def test_parts_can_be_chosen_by_their_names(self):
        answer = self.run_parts(GPU, shell("one", "exit 1"), shell("two", "true"), arguments=["--only", "two"])
        self.assertEqual((answer.returncode, list(self.rows())), (0, ["gpu", "two"]), answer.stderr)
        answer = self.run_parts(GPU, shell("one", "true"), arguments=["--only", "three"])
        self.assertEqual(answer.returncode, 2)
        self.assertIn("--only three: takes some of gpu, one", answer.stderr)

    def test_a_table_that_cannot_be_read_is_refused(self):
        answer = self.run_parts({"name": "x", "commando": []})
        self.assertEqual((answer.returncode, answer.stdout), (2, ""))
        self.assertIn("parts.json: ", answer.stderr)
        answer = self.run_parts(shell("x", "true", figures="("))
        self.assertIn("x: figures: ", answer.stderr)

    def test_the_table_of_the_suite_is_read(self):
        build = self.folder / "build"
        probes = build / "tests" / "device" / "device_probes"
        probes.parent.mkdir(parents=True)
        probes.write_text("#!/bin/sh\necho 'skipped: no CUDA driver'\nexit 77\n")
        probes.chmod(0o755)
        answer = subprocess.run([sys.executable, RUN, build, "--out", self.report], capture_output=True, text=True)
        self.assertEqual((answer.returncode, answer.stderr), (77, ""), answer.stdout)
        self.assertIn("probes: skipped: skipped: no CUDA driver", answer.stdout)


if __name__ == "__main__":
    unittest.main()
