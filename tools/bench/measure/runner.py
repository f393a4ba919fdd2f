"""Starts jobs, ends all that they started, and shows how far a measurement is."""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

END_SECONDS = 10.0  # for a job to end after SIGTERM, before it is killed: it may have a cluster to take down
MOST_OUTPUT = 4000  # characters of a failed job's output in a message
BAR = 20  # characters


class JobFailed(Exception):
    """What was run, how it ended, and its last output."""


@dataclass(frozen=True)
class Outcome:
    command: list[str]
    status: int | None  # None: it did not end in time
    output: str
    wall_s: float
    cpu_s: float  # of the job and of all processes that it has waited for

    def failure(self) -> str:
        """Why this is no result, or nothing."""
        if self.status is None:
            return f"no end after {self.wall_s:.0f} s"
        return f"exit status {self.status}" if self.status else ""

    def short_failure(self) -> str:
        """The same on one line, with its last output."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        failure = self.failure()
        return f"{failure}: {' / '.join(lines[-3:])[:400]}" if failure and lines else failure


class Job:
    """A command in a session of its own: an interrupt reaches this program alone, which ends all of it."""

    def __init__(self, command: Sequence[object], environment: Mapping[str, str] | None = None, printed: str = ""):
        """shown: what goes where this program's own goes instead of into the outcome: "", "errors" or "all"."""
        self.command = [str(word) for word in command]
        self.log = tempfile.TemporaryFile()
        self.cpu_s = 0.0
        self.started = time.monotonic()
        sys.stdout.flush()
        self.process = subprocess.Popen(
            self.command, env={**os.environ, **(environment or {})}, stdin=subprocess.DEVNULL,
            stdout=None if printed == "all" else self.log, stderr=None if printed else subprocess.STDOUT,
            start_new_session=True)

    def running(self) -> bool:
        # wait4 and not Popen's own: it also gives processor time.
        if self.process.returncode is None:
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                self.process.returncode = os.waitstatus_to_exitcode(status)
                self.cpu_s = usage.ru_utime + usage.ru_stime
        return self.process.returncode is None

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it has ended."""
        until, pause = time.monotonic() + (float("inf") if seconds is None else seconds), 0.001
        while self.running():
            if time.monotonic() >= until:
                return False
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
        return True

    def end(self) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                break
            self.wait(END_SECONDS)

    def outcome(self, in_time: bool = True) -> Outcome:
        with self.log as log:
            log.seek(0)
            output = log.read().decode(errors="replace")
        return Outcome(self.command, self.process.returncode if in_time else None, output,
                       time.monotonic() - self.started, self.cpu_s)


def run_job(command: Sequence[object], seconds: float | None = None,
            environment: Mapping[str, str] | None = None, printed: str = "") -> Outcome:
    """Runs it to its end, or for as many seconds; nothing of it is left afterwards."""
    job = Job(command, environment, printed)
    in_time = False
    try:
        in_time = job.wait(seconds)
    finally:
        job.end()
    return job.outcome(in_time)


def must_run(command: Sequence[object], seconds: float | None = None,
             environment: Mapping[str, str] | None = None, printed: str = "") -> str:
    """What it printed; raises JobFailed where it fails."""
    outcome = run_job(command, seconds, environment, printed)
    if outcome.failure():
        raise JobFailed(f"{shlex.join(outcome.command)}\n{outcome.failure()}:\n{outcome.output[-MOST_OUTPUT:]}")
    return outcome.output


def say(text: str, end: str = "\n") -> None:
    """On standard error; on a terminal in place of a progress line."""
    print(("\r\x1b[K" if sys.stderr.isatty() else "") + text, end=end, file=sys.stderr, flush=True)


def duration_text(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


class Progress:
    """How far, how long still, and what is running: a line per step, on a terminal one line with a bar."""

    def __init__(self, steps: int):
        self.steps, self.done, self.started = steps, 0, time.monotonic()

    def line(self, text: str) -> str:
        spent = time.monotonic() - self.started
        left = ""
        if self.done:
            left = f", about {duration_text(spent / self.done * (self.steps - self.done))} left"
        return f"[{self.done + 1}/{self.steps}] {duration_text(spent)}{left}: {text}"

    @contextlib.contextmanager
    def step(self, text: str) -> Iterator[None]:
        line = self.line(text)
        if sys.stderr.isatty():
            filled = BAR * self.done // self.steps
            line = f"{'#' * filled}{'.' * (BAR - filled)} {line}"
            say(line[: shutil.get_terminal_size().columns - 1], end="")
        else:
            say(line)
        yield
        self.done += 1
        if self.done == self.steps and sys.stderr.isatty():
            say("", end="")


def lacking(build: object, programs: Sequence[str], advice: str = "") -> str:
    """The message where a build lacks programs, or ""."""
    missing = [name for name in programs if not os.access(os.path.join(build, "tools", name), os.X_OK)]
    return (f"{build}/tools lacks {', '.join(missing)}: run meson setup {build} && ninja -C {build}"
            f"{advice}, or name another build directory") if missing else ""


def run_command(name: str, main: Callable[[], int | None]) -> NoReturn:
    """Ends with main()'s status. Ended from outside, a command still takes its jobs and files away, and who cannot
    wait for that does not cut it short."""

    def stop(number: int, frame: object) -> None:
        for further in (signal.SIGINT, signal.SIGTERM):
            signal.signal(further, signal.SIG_IGN)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(143)

    signal.signal(signal.SIGTERM, stop)
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, stop)
    try:
        status = main()
    except KeyboardInterrupt:
        say(f"{name}: interrupted")
        status = 130
    except JobFailed as failure:
        say(f"{name}: {failure}")
        status = 1
    sys.exit(status)
