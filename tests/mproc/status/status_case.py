"""A job on an emulated cluster of which `horing status` is asked."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HORING, PERF = sys.argv[1:3]
MOST = 120  # seconds for what is to come soon: a busy machine takes long
ENDLESS = [PERF, "-b", "64K", "-e", "64K", "-n", "1000000", "-w", "0", "-c", "0"]


def until(what, look, seconds=MOST):
    """What `look` returns once that is true."""
    end = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not after {seconds} s")
        time.sleep(0.02)
    return found


class Case(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="horing-status-")
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        self.folder = self.scratch / "sockets"
        self.records = self.scratch / "records"
        self.records.mkdir()

    def environment(self, **variables):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HORING_")}
        return {**kept, "HORING_STATUS_DIR": str(self.folder), **variables}

    def start(self, *command, ranks="2x2", log=None, more=(), **variables):
        """A job that runs until the test ends."""
        output = open(log or self.scratch / "job.log", "w")
        job = subprocess.Popen([HORING, "run", "-n", ranks, "--emulate", "paced", "--quiet", *more, "--", *(command or ENDLESS)],
                               env=self.environment(**variables), stdout=output, stderr=subprocess.STDOUT)
        output.close()
        self.addCleanup(self.end, job)
        return job

    def end(self, job):
        for report in self.reports():
            with contextlib.suppress(ProcessLookupError):  # it may have ended meanwhile
                os.kill(report["pid"], signal.SIGCONT)
        job.terminate()
        job.wait(MOST)

    def status(self, *arguments, **variables):
        return subprocess.run([HORING, "status", *arguments], env=self.environment(**variables), capture_output=True,
                              text=True, timeout=MOST)

    def view(self, *arguments):
        """The job as --json has it; nothing while it cannot be had."""
        answer = self.status("--json", *arguments)
        return json.loads(answer.stdout) if answer.returncode == 0 else None

    def reports(self):
        view = self.view()
        return [rank for rank in view["ranks"] if rank["pid"]] if view else []

    def moving(self, ranks=4, calls_of_start=50):
        """Once all of the job's ranks are past the calls of their start."""
        def look():
            view = self.view()
            calls = [sum(each["completed"] for each in rank["report"]["communicators"])
                     for rank in view["ranks"] if rank["report"]] if view else []
            return view if len(calls) == ranks and min(calls) > calls_of_start else None
        return until("calls of all ranks", look)

    def hanging(self, rank):
        """Once all other ranks wait, with that one stopped."""
        def look():
            view = self.view()
            states = {each["rank"]: each["state"] for each in view["ranks"]}
            expected = {other: "waits" for other in states} | {rank: "stopped"}
            return view if states == expected else None
        try:
            return until(f"a hang on rank {rank}", look)
        except AssertionError as late:
            raise AssertionError(f"{late}:\n{self.status().stdout}") from late

    def stop(self, view, rank):
        os.kill(view["ranks"][rank]["pid"], signal.SIGSTOP)
