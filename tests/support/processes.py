"""What tests ask about processes that are no children of theirs."""

from __future__ import annotations

import pathlib
import time


def wait_for_end(pid: str, seconds: float = 120) -> None:
    """Of a process that was sent SIGKILL: it ends soon, and then whoever adopted it may not have waited for it yet."""
    until = time.monotonic() + seconds
    while (state := _state_of(pid)) not in ("", "Z"):
        if time.monotonic() > until:
            raise AssertionError(f"process {pid} goes on, in state {state}")
        time.sleep(0.01)


def _state_of(pid: str) -> str:
    """The letter in its status; nothing where there is no such process."""
    try:
        return pathlib.Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
