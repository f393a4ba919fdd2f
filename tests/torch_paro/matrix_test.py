"""Every strategy trains as one process does with torch's own AdamW.

usage: matrix_test.py [--full]   (--full: all shapes with all combinations)
"""

from __future__ import annotations

import itertools
import sys
import unittest
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import paro.torch
from models import Model, loss_of, micro_batches
from ranks import run_ranks
from training import FULL, LR, STEPS, adamw, compared, sharded, step_of, whole

SHAPES = [(2, 2), (2, 3), (4, 1), (1, 4)]
CLOSE = 2e-5  # fp32
CLOSE_IN_BF16 = 3e-2  # of fp32, after four steps
CASES = list(itertools.product((1, 3), (False, True), (False, True), (False, True)))
# Accumulation, bf16, clipping, frozen parameters: each met with and without the others.
SHORT_CASES = [(1, False, True, False), (3, False, False, True), (3, False, True, True), (3, True, True, False)]


SPLIT = [name for name, strategy in paro.torch.STRATEGIES.items() if strategy.splits_shards]


def all_cases(
    shape: tuple[int, int], cases: list[Any], names: list[str] | None = None
) -> list[tuple[Any, ...]]:
    """What differs too much, with what it differs by."""
    mesh = paro.torch.init_mesh("cpu", shape[1])
    bad = []
    for name in names or paro.torch.STRATEGIES:
        for parts, half, clip, frozen in cases:
            worst = compared(name, mesh, parts, half, clip, frozen)
            if not worst < (CLOSE_IN_BF16 if half else CLOSE):
                bad.append((name, f"accumulation {parts}, bf16 {half}, clip {clip}, frozen {frozen}", worst))
    return bad


def losses_of(model: nn.Module, optimizer: paro.torch.Optimizer, parts: int) -> tuple[list[float], list[torch.Tensor]]:
    losses = [step_of(model, optimizer, step, parts)[0] for step in range(STEPS)]
    return losses, [whole(p).detach() for p in model.parameters()]


def plain(replicas: int, parts: int) -> tuple[list[float], list[torch.Tensor]]:
    """FSDP2 as it is: one dimension, or hybrid sharding that all-reduces in the last micro-batch."""
    model = Model()
    ranks = dist.get_world_size()
    shape, names = ((ranks,), ("shard",)) if replicas == 1 else (
        (replicas, ranks // replicas), ("replicate", "shard"))
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    root: Any = fully_shard(model, mesh=mesh)
    optimizer = adamw(model.parameters())
    losses = []
    for step in range(STEPS):
        total = torch.zeros(())
        batches = micro_batches(step, dist.get_rank(), ranks, parts)
        for index, (x, y) in enumerate(batches):
            root.set_requires_all_reduce(index + 1 == parts)
            loss = loss_of(model, x, y, parts)
            loss.backward()
            total += loss.detach()
        optimizer.step()
        optimizer.zero_grad()
        dist.all_reduce(total)
        losses.append(total.item() / ranks)
    return losses, [whole(p).detach() for p in model.parameters()]


def bits_differ(strategy: str, replicas: int, parts: int) -> list[str]:
    mesh = paro.torch.init_mesh("cpu", dist.get_world_size() // max(replicas, 2))
    model = sharded(Model(), strategy, mesh)
    ours = losses_of(model, paro.torch.Optimizer(torch.optim.AdamW, model, lr=LR), parts)
    theirs = plain(replicas, parts)
    bad = [] if ours[0] == theirs[0] else [f"losses {ours[0]} {theirs[0]}"]
    return bad + [
        f"parameter {index}" for index, (a, b) in enumerate(zip(ours[1], theirs[1], strict=True))
        if not torch.equal(a, b)
    ]


class Matrix(unittest.TestCase):
    def check(self, shape: tuple[int, int], cases: list[Any], names: list[str] | None, **options: Any) -> None:
        with self.subTest(shape=shape):
            for bad in run_ranks([shape[1]] * shape[0], all_cases, shape, cases, names, seconds=1200, **options):
                self.assertEqual(bad, [])

    def test_every_strategy_trains_as_one_process_does(self) -> None:
        self.check((2, 2), CASES if FULL else SHORT_CASES, None, backend="gloo")

    def test_groups_of_other_sizes_train_too(self) -> None:
        for shape in SHAPES[1:]:
            names = None if FULL else SPLIT
            self.check(shape, CASES if FULL else [(3, False, True, True)], names, backend="gloo")

    def test_strategies_train_over_horing_as_over_gloo(self) -> None:
        self.check((2, 2), [(3, False, True, False)], None if FULL else ["NNN", *SPLIT, "GGG"])

    def test_ggg_is_fsdp2_to_the_last_bit(self) -> None:
        for bad in run_ranks([2, 2], bits_differ, "GGG", 1, 3, backend="gloo"):
            self.assertEqual(bad, [])

    def test_iii_is_hybrid_sharding_to_the_last_bit(self) -> None:
        for bad in run_ranks([2, 2], bits_differ, "III", 2, 3, backend="gloo"):
            self.assertEqual(bad, [])


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
