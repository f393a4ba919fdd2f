"""PyTorch's own tests of torch.distributed, from the installed wheel, over the backend that BACKEND
names. Run by tools/torch-conformance:

    conformance_cases.py --list
    conformance_cases.py RECORDS TEST...   one JSON line per test: name, outcome, reason, called

With IN_PLACE=1 and BACKEND=gloo, gloo's groups are horing's: so tests run that ask for gloo by name.
A test is "called" where a method of the backend's group ran in one of its processes; making groups
does not count.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import types
import unittest
from typing import Any

BACKEND = os.environ.setdefault("BACKEND", "horing")
IN_PLACE = os.environ.get("IN_PLACE") == "1"
os.environ.setdefault("WORLD_SIZE", "4")
os.environ.setdefault("TEMP_DIR", tempfile.gettempdir())
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
from torch.testing._internal.common_distributed import DistTestCases  # noqa: E402

import horing.torch  # noqa: E402, F401

for _feature in ("ddp", "subgroup"):
    DistTestCases.backend_feature[_feature].add("horing")

from torch.testing._internal.distributed import distributed_test  # noqa: E402
from torch.testing._internal.distributed.distributed_test import (  # noqa: E402
    DistributedTest,
    TestDistBackend,
)

CALLED = "TORCH_CONFORMANCE_CALLED"  # a file that is made by the first call


def _count_calls() -> None:
    """Whoever runs an operation of a group of the backend makes the file."""

    def mark() -> None:
        path = os.environ.get(CALLED)
        if path:
            with open(path, "a"):
                pass

    if BACKEND == "horing" or IN_PLACE:
        from horing.torch.process_group import ProcessGroup

        original = ProcessGroup._call

        def counted(self: Any, *arguments: Any, **named: Any) -> Any:
            mark()
            return original(self, *arguments, **named)

        ProcessGroup._call = counted  # type: ignore[method-assign]


def _wait_longer_for_processes() -> None:
    """They wait 10 s for each other, which a busy machine may take to start them."""
    wait = distributed_test.Barrier.sync
    distributed_test.Barrier.sync = staticmethod(  # type: ignore[method-assign]
        lambda wait_for=None, timeout=600: wait(wait_for, max(timeout, 600))
    )


def _act_as_gloo() -> None:
    from horing.torch.process_group import ProcessGroup

    class ActsAsGloo(ProcessGroup):
        def __init__(self, store: Any, rank: int, size: int, timeout: Any) -> None:
            super().__init__(store, rank, size, timeout)
            self.options = types.SimpleNamespace()

    torch.distributed.distributed_c10d.ProcessGroupGloo = ActsAsGloo  # type: ignore[attr-defined]
    # torch's profiler has events of its own for gloo. There are none for a backend in Python.
    for events in ("PROFILING_SUPPORTED_BACKENDS", "SEND_RECV_PROFILING_SUPPORTED_BACKENDS"):
        getattr(distributed_test, events).remove(torch.distributed.Backend.GLOO)


class TestBackend(TestDistBackend, DistributedTest._DistTestBase):
    def setUp(self) -> None:
        super().setUp()
        # Processes are forked: torch is imported once instead of once per rank and test.
        self._start_processes(torch.multiprocessing.get_context("fork").Process)


def names() -> list[str]:
    return unittest.TestLoader().getTestCaseNames(TestBackend)


def run(name: str, called: str) -> dict[str, Any]:
    if os.path.exists(called):
        os.unlink(called)
    os.environ[CALLED] = called
    started = time.monotonic()
    result = unittest.TestResult()
    TestBackend(name).run(result)
    reason = ""
    if result.skipped:
        outcome, reason = "skipped", result.skipped[0][1]
    elif result.errors or result.failures:
        outcome, reason = "failed", (result.errors + result.failures)[0][1]
    else:
        outcome = "passed"
    return {
        "name": name,
        "outcome": outcome,
        "reason": reason,
        "called": os.path.exists(called),
        "seconds": round(time.monotonic() - started, 1),
    }


def main() -> None:
    if sys.argv[1:] == ["--list"]:
        print("\n".join(names()))
        return
    _count_calls()
    _wait_longer_for_processes()
    if IN_PLACE:
        _act_as_gloo()
    with open(sys.argv[1], "a") as records:
        for name in sys.argv[2:]:
            print(json.dumps(run(name, sys.argv[1] + ".called")), file=records, flush=True)


if __name__ == "__main__":
    main()
