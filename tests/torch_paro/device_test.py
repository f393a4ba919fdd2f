"""What a CPU cannot show of paro.torch: streams, host synchronisation, memory of a GPU. Over NCCL, a
rank for each GPU. Status 77 where there is none, or a torch without CUDA.

Needs HORING_TEST_TORCH to name a torch with CUDA when the virtual environment is made.
"""

from __future__ import annotations

import glob
import os
import sys
import unittest
from typing import Any

import paro.torch
import torch
import torch.distributed as dist
from models import Model, loss_of, micro_batches, trained_alone
from ranks import run_ranks
from training import LR, adamw, relative, sharded, whole

GPUS = len(glob.glob("/dev/nvidia[0-9]*"))
STEPS, PARTS = 6, 3
STRATEGIES = ["IIG", "NIG", "ING", "IGG", "III", "GGG", "NNN"]


def prepared(strategy: str) -> Any:
    torch.cuda.set_device(dist.get_rank())
    torch.backends.cuda.matmul.allow_tf32 = False
    mesh = paro.torch.init_mesh("cuda", GPUS // 2 if GPUS % 2 == 0 else GPUS)
    model = sharded(Model().cuda(), strategy, mesh)
    return model, paro.torch.Optimizer(torch.optim.AdamW, model, lr=LR)


def step_of(model: Any, optimizer: Any, step: int, sync: str = "default") -> None:
    # Ranks that do not divide the rows take all of them: the mean gradient is the same.
    even = 36 % (GPUS * PARTS) == 0
    rank, ranks = (dist.get_rank(), GPUS) if even else (0, 1)
    batches = [(x.cuda(), y.cuda()) for x, y in micro_batches(step, rank, ranks, PARTS)]
    for index, (x, y) in enumerate(batches):
        with paro.torch.microbatch(model, last=index + 1 == PARTS):
            loss = loss_of(model, x, y, PARTS)
            torch.cuda.set_sync_debug_mode(sync)
            loss.backward()
            torch.cuda.set_sync_debug_mode("default")
    optimizer.step()
    optimizer.zero_grad()


class Device(unittest.TestCase):
    def test_every_strategy_trains_as_one_process_does_while_streams_overlap(self) -> None:
        def body(strategy: str) -> float:
            _, _, parameters = trained_alone(Model(), STEPS, adamw, None)
            model, optimizer = prepared(strategy)
            for step in range(STEPS):
                step_of(model, optimizer, step)
            return max(relative(whole(p).cpu(), parameters[n]) for n, p in model.named_parameters())

        for strategy in STRATEGIES:
            with self.subTest(strategy):
                self.assertLess(max(run_ranks([GPUS], body, strategy, backend="nccl")), 1e-4)

    def test_no_hook_waits_for_the_device(self) -> None:
        def body(strategy: str) -> None:
            model, optimizer = prepared(strategy)
            step_of(model, optimizer, 0)  # makes communicators
            step_of(model, optimizer, 1, "error")

        for strategy in STRATEGIES:
            with self.subTest(strategy):
                run_ranks([GPUS], body, strategy, backend="nccl")

    def test_memory_goes_back_to_its_scopes_after_each_step(self) -> None:
        def body(strategy: str) -> list[int]:
            model, optimizer = prepared(strategy)
            allocated = []
            for step in range(STEPS):
                step_of(model, optimizer, step)
                torch.cuda.synchronize()
                allocated.append(torch.cuda.memory_allocated())
            return allocated[2:]

        for strategy in STRATEGIES:
            with self.subTest(strategy):
                for allocated in run_ranks([GPUS], body, strategy, backend="nccl"):
                    self.assertEqual(len(set(allocated)), 1, allocated)


if __name__ == "__main__":
    if GPUS == 0 or torch.version.cuda is None:
        print(f"skip  {os.path.basename(__file__)}: {GPUS} GPUs, torch {torch.__version__}")
        sys.exit(77)
    sys.exit(unittest.main(verbosity=2))
