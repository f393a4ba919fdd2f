"""What a CPU cannot show of paro.torch: streams, host synchronisation, memory of a GPU. Over NCCL, a
rank for each GPU, or PARO_TEST_RANKS ranks, and the strategies of PARO_TEST_STRATEGIES ("IIG,NIG"). Status 77 where
there is no GPU, or a torch without CUDA.

Needs HORING_TEST_TORCH to name a torch with CUDA when the virtual environment is made.
"""

from __future__ import annotations

import dataclasses
import gc
import glob
import os
import sys
import unittest
from typing import Any

import torch
import torch.distributed as dist

import paro.torch
from models import Model, loss_of, micro_batches, trained_alone
from ranks import run_ranks
from training import LR, adamw, relative, sharded, whole

GPUS = len(glob.glob("/dev/nvidia[0-9]*"))
# More than there are GPUs: several on one, each with a node's name of its own, or NCCL refuses them.
RANKS = int(os.environ.get("PARO_TEST_RANKS", GPUS))
STEPS, PARTS = 6, 3
STRATEGIES = os.environ.get("PARO_TEST_STRATEGIES", "IIG,NIG,ING,IGG,III,GGG,NNN").split(",")


@dataclasses.dataclass
class Outcome:
    """Of a strategy, on one rank."""

    distance: float  # from what one process trains
    allocated: list[int]  # bytes after each step


def prepared(strategy: str) -> Any:
    mesh = paro.torch.init_mesh("cuda", RANKS // 2 if RANKS % 2 == 0 else RANKS)
    model = sharded(Model().cuda(), strategy, mesh)
    return model, paro.torch.Optimizer(torch.optim.AdamW, model, lr=LR)


def step_of(model: Any, optimizer: Any, step: int, sync: str = "default") -> None:
    # Ranks that do not divide the rows take all of them: the mean gradient is the same.
    even = 36 % (RANKS * PARTS) == 0
    rank, ranks = (dist.get_rank(), RANKS) if even else (0, 1)
    batches = [(x.cuda(), y.cuda()) for x, y in micro_batches(step, rank, ranks, PARTS)]
    for index, (x, y) in enumerate(batches):
        with paro.torch.microbatch(model, last=index + 1 == PARTS):
            loss = loss_of(model, x, y, PARTS)
            torch.cuda.set_sync_debug_mode(sync)
            loss.backward()
            torch.cuda.set_sync_debug_mode("default")
    optimizer.step()
    optimizer.zero_grad()


def trained(strategy: str, parameters: dict[str, torch.Tensor]) -> Outcome:
    gc.collect()  # the strategy before must not count
    model, optimizer = prepared(strategy)
    allocated = []
    for step in range(STEPS):
        step_of(model, optimizer, step)
        torch.cuda.synchronize()
        allocated.append(torch.cuda.memory_allocated())
    distance = max(relative(whole(p).cpu(), parameters[n]) for n, p in model.named_parameters())
    step_of(model, optimizer, STEPS, "error")  # communicators are made: nothing has to wait any more
    return Outcome(distance, allocated)


def all_trained() -> dict[str, Outcome]:
    rank = dist.get_rank()
    if RANKS > GPUS:
        os.environ["NCCL_HOSTID"] = f"rank{rank}"  # before NCCL reads it
    torch.cuda.set_device(rank % GPUS)
    torch.backends.cuda.matmul.allow_tf32 = False
    _, _, parameters = trained_alone(Model(), STEPS, adamw, None)
    return {strategy: trained(strategy, parameters) for strategy in STRATEGIES}


LACKING = GPUS == 0 or torch.version.cuda is None
NO_DEVICES = f"{GPUS} GPUs, torch {torch.__version__}"


@unittest.skipIf(LACKING, NO_DEVICES)
class Device(unittest.TestCase):
    outcomes: list[dict[str, Outcome]]  # by rank

    @classmethod
    def setUpClass(cls) -> None:
        # One start for all strategies: CUDA and NCCL take seconds for each.
        cls.outcomes = run_ranks([RANKS], all_trained, backend="nccl")

    def test_every_strategy_trains_as_one_process_does_while_streams_overlap(self) -> None:
        for strategy in STRATEGIES:
            with self.subTest(strategy):
                self.assertLess(max(rank[strategy].distance for rank in self.outcomes), 1e-4)

    def test_no_hook_waits_for_the_device(self) -> None:
        # A step in which a wait is an error has ended.
        self.assertEqual([list(rank) for rank in self.outcomes], [STRATEGIES] * RANKS)

    def test_memory_goes_back_to_its_scopes_after_each_step(self) -> None:
        for strategy in STRATEGIES:
            with self.subTest(strategy):
                for rank in self.outcomes:
                    allocated = rank[strategy].allocated[2:]
                    self.assertEqual(len(set(allocated)), 1, allocated)


if __name__ == "__main__":
    if LACKING:
        print(f"skip  {os.path.basename(__file__)}: {NO_DEVICES}")
        sys.exit(77)
    sys.exit(unittest.main(verbosity=2))
