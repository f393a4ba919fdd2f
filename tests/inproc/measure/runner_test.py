#!/usr/bin/env python3
"""Jobs end with all that they started; the time that they take decides nothing here."""
import contextlib
import io
import os
import pathlib
import signal
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).parents[3] / "tools" / "bench"), str(pathlib.Path(__file__).parents[2] / "support")]
# pylint: disable=wrong-import-position
from processes import wait_for_end  # noqa: E402

from measure import runner  # noqa: E402


class Runner(unittest.TestCase):
    def test_what_a_job_printed_is_kept(self):
        outcome = runner.run_job(["sh", "-c", 'echo "$WORD"; echo two >&2'], environment={"WORD": "one"})
        self.assertEqual((outcome.status, outcome.output, outcome.failure()), (0, "one\ntwo\n", ""))

    def test_a_failure_says_status_and_last_lines(self):
        outcome = runner.run_job(["sh", "-c", "echo first; echo; echo last; exit 3"])
        self.assertEqual(outcome.short_failure(), "exit status 3: first / last")
        with self.assertRaisesRegex(runner.JobFailed, "(?s)^sh -c 'exit 4'\nexit status 4"):
            runner.must_run(["sh", "-c", "exit 4"])

    def test_processor_time_is_of_children_too(self):
        """A shell that only waits for a child that computes."""
        loop = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
        for _ in range(10):  # the other may have been the one that the machine was busy with
            busy = runner.run_job(["sh", "-c", f"sh -c '{loop}'; true"])
            if busy.cpu_s > runner.run_job(["true"]).cpu_s:
                return
        self.fail("never more than that of a program that does nothing")

    def test_a_job_past_its_deadline_leaves_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            pid_file = pathlib.Path(folder, "pid")
            outcome = runner.run_job(["sh", "-c", f"sleep 1000 & echo $! > {pid_file}; wait"], seconds=1)
            self.assertIsNone(outcome.status)
            self.assertRegex(outcome.failure(), "^no end after")
            if pid_file.exists() and pid_file.read_text():
                wait_for_end(pid_file.read_text().strip())

    def test_an_exception_ends_the_job(self):
        job = runner.Job(["sleep", "1000"])
        self.assertTrue(job.running())
        job.end()
        self.assertEqual(job.process.returncode, -signal.SIGTERM)
        self.assertEqual(job.outcome().failure(), f"exit status {-signal.SIGTERM}")

    def test_progress_tells_step_and_time_left(self):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            progress = runner.Progress(2)
            with progress.step("one"):
                pass
            with progress.step("two"):
                pass
        first, second = said.getvalue().splitlines()
        self.assertRegex(first, r"^\[1/2\] \d+ s: one$")
        self.assertRegex(second, r"^\[2/2\] \d+ s, about \d+ s left: two$")

    def test_commands_end_with_their_statuses(self):
        def interrupted():
            raise KeyboardInterrupt

        def failed():
            raise runner.JobFailed("why")

        for main, status, text in ((lambda: 0, 0, ""), (lambda: 2, 2, ""), (interrupted, 130, "x: interrupted\n"),
                                   (failed, 1, "x: why\n")):
            said = io.StringIO()
            with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as end:
                runner.run_command("x", main)
            self.assertEqual((end.exception.code, said.getvalue()), (status, text))

    def test_builds_that_lack_programs_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertRegex(runner.lacking(folder, ["horing", "paro"]), "lacks horing, paro: run meson setup")
            os.mkdir(os.path.join(folder, "tools"))
            program = pathlib.Path(folder, "tools", "horing")
            program.write_text("")
            self.assertRegex(runner.lacking(folder, ["horing"]), "lacks horing")
            program.chmod(0o755)
            self.assertEqual(runner.lacking(folder, ["horing"]), "")


if __name__ == "__main__":
    unittest.main()
