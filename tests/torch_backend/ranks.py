"""Ranks of a test: processes forked from one that has imported torch, each with a group of its own
backend. A node of the shape is what HORING_HOST_ID says it is: ranks of two nodes talk over TCP."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch._dynamo  # noqa: F401  # sharding imports it, and each forked rank would by itself
import torch.distributed as dist

import horing.torch  # noqa: F401

SECONDS = 900  # these are for hangs: a busy machine may take ten times as long as a free one
TIMEOUT = 600
LINGER_S = 2  # for a rank that has ended: the others' errors are their own, and not that it has left


class RanksFailed(AssertionError):
    """What each rank that failed printed."""


def _run(
    rank: int, nodes: Sequence[int], backend: str, store: str, timeout: float, pipe: Any,
    body: Callable[..., Any], arguments: tuple[Any, ...], variables: dict[str, str],
) -> None:
    torch.set_num_threads(1)
    os.environ.update(variables)
    node = [index for index, size in enumerate(nodes) for _ in range(size)][rank]
    os.environ["HORING_HOST_ID"] = f"node{node}"
    try:
        dist.init_process_group(
            backend, rank=rank, world_size=sum(nodes), store=dist.FileStore(store, sum(nodes)),
            timeout=timedelta(seconds=timeout),
        )
        result = body(*arguments)
        # torch 2.6 can hang in the destructor of gloo's group.
        if backend != "gloo" and dist.is_initialized():
            dist.destroy_process_group()
        pipe.send((True, result))
    except BaseException:
        pipe.send((False, traceback.format_exc()))
    pipe.poll(LINGER_S)
    os._exit(0)


def run_ranks(
    nodes: Sequence[int], body: Callable[..., Any], *arguments: Any, backend: str = "horing",
    timeout: float = TIMEOUT, seconds: float = SECONDS, may_die: Sequence[int] = (),
    started: Callable[[list[int]], None] | None = None,
    variables: Callable[[int], dict[str, str]] = lambda _: {},
) -> list[Any]:
    """What `body` returned on each rank; raises RanksFailed with the texts of those that failed.

    `started` gets the ranks' process ids; who of `may_die` ends without a result has None. `variables` has those of
    a rank's environment."""
    context = torch.multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        pipes, processes = [], []
        for rank in range(sum(nodes)):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_run,
                args=(rank, nodes, backend, f"{folder}/store", timeout, theirs, body, arguments, variables(rank)),
            )
            process.start()
            theirs.close()
            pipes.append(ours)
            processes.append(process)
        if started is not None:
            started([process.pid for process in processes])
        results, failed = [], []
        until = time.monotonic() + seconds
        for rank, pipe in enumerate(pipes):
            good, result = False, f"no result after {seconds} s"
            try:
                if pipe.poll(max(0.0, until - time.monotonic())):
                    good, result = pipe.recv()
            except EOFError:
                result = "the process ended"
            if not good and rank in may_die:
                result = None
            elif not good:
                failed.append(f"rank {rank}: {result}")
            results.append(result)
        for pipe, process in zip(pipes, processes, strict=True):
            with contextlib.suppress(OSError):
                pipe.send(None)
            if process.is_alive():
                process.join(5)
            if process.is_alive():
                os.kill(process.pid, signal.SIGKILL)
                process.join()
    if failed:
        raise RanksFailed("\n".join(failed))
    return results
