"""Memory of each state is its scope's; bytes between nodes are what the strategy needs; planted
faults are noticed."""

from __future__ import annotations

import gc
import os
import sys
import time
import unittest
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

import horing.torch
import paro.torch
from paro.torch.backward import Backward
from paro.torch.reduction import Reduction
from ranks import run_ranks
from training import compared

WIDTH, LAYERS = 64, 4
PARAMETERS = LAYERS * WIDTH * WIDTH
FP32 = 4
CLOSE = 0.03  # of the expected bytes
SMALL = 1024  # what device meshes keep, in bytes
GROUPS, GROUP_SIZE = 2, 2
DIVISOR = {"N": 1, "I": GROUP_SIZE, "G": GROUPS * GROUP_SIZE}


def layers(strategy: str, mesh: DeviceMesh) -> nn.Module:
    torch.manual_seed(5)
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)))
    for layer in model:
        paro.torch.fully_shard(layer, mesh=mesh, strategy=strategy)
    paro.torch.fully_shard(model, mesh=mesh, strategy=strategy)
    return model


def live_bytes() -> int:
    """Of the storages of all tensors that Python can reach."""
    gc.collect()
    storages: dict[int, int] = {}
    pending = [each for each in gc.get_objects() if isinstance(each, torch.Tensor)]
    for tensor in pending:
        if tensor.is_leaf and tensor.grad is not None:
            pending.append(tensor.grad)
        try:
            storage = tensor.untyped_storage()
            at_index = storage.data_ptr()
        except (NotImplementedError, RuntimeError):  # a tensor without a storage of its own
            continue
        if storage.device.type == "cpu" and at_index:
            storages[at_index] = storage.nbytes()
    return sum(storages.values())


def live_bytes_down_to(most: float) -> int:
    """gloo's threads hold what they have moved for a moment longer: so long as it is more, it is looked at again."""
    until = time.monotonic() + 60
    while (found := live_bytes()) > most and time.monotonic() < until:
        time.sleep(0.02)
    return found


def one_pass(model: nn.Module, last: bool) -> None:
    rows = torch.ones(3, WIDTH)
    with paro.torch.microbatch(model, last=last):
        model(rows).square().sum().backward()


def reported_bytes(model: nn.Module) -> int:
    reported = paro.torch.memory(model)
    return reported.parameters + reported.gradients + reported.optimizer


def bytes_of(strategy: str, without: int) -> tuple[int, int, int, int, list[int]]:
    """What lives of earlier models, in the middle of a step, between two steps, and after the last pass of one;
    and what paro.torch says of the middle and of the last. `without`: what lives where there has been no model."""
    mesh = paro.torch.init_mesh("cpu", GROUP_SIZE)
    expected = [(1 + CLOSE / 2) * each for each in expected_bytes(strategy)]
    before = live_bytes_down_to(without + SMALL)
    model = layers(strategy, mesh)
    optimizer = paro.torch.Optimizer(torch.optim.AdamW, model, lr=1e-3)
    for last in (False, True):
        one_pass(model, last)
    optimizer.step()
    optimizer.zero_grad()
    between = live_bytes_down_to(before + expected[1]) - before
    one_pass(model, False)
    middle = live_bytes_down_to(before + expected[0]) - before
    reported = [reported_bytes(model)]
    one_pass(model, True)
    reported.append(reported_bytes(model))
    reducing = live_bytes_down_to(before + (1 + CLOSE / 2) * reported[1]) - before
    return before - without, middle, between, reducing, reported


def expected_bytes(strategy: str) -> tuple[int, int]:
    parameters, gradients, optimizer = (PARAMETERS * FP32 // DIVISOR[letter] for letter in strategy)
    chosen = paro.torch.STRATEGIES[strategy]
    shard = PARAMETERS * FP32 // DIVISOR[chosen.shards.value]
    # fp32 shards are their own masters, but where the optimizer splits them.
    states = (3 if chosen.splits_shards else 2) * optimizer
    gathered = parameters if chosen.keeps_unsharded else 0
    return gathered + shard + gradients + states, shard + states


def sent_bytes(strategy: str, parts: int) -> tuple[int, float, int, float]:
    """By this rank between nodes in a step, and what paro.torch says that it sends; then inside its node."""
    mesh = paro.torch.init_mesh("cpu", GROUP_SIZE)
    model = layers(strategy, mesh)
    optimizer = paro.torch.Optimizer(torch.optim.AdamW, model, lr=1e-3)
    groups = {mesh.get_group(0), mesh.get_group(1), dist.group.WORLD}

    def step() -> None:
        for part in range(parts):
            one_pass(model, part + 1 == parts)
        optimizer.step()
        optimizer.zero_grad()

    def sent() -> tuple[int, int]:
        moved = [horing.torch.traffic(group) for group in groups]
        return sum(each.inter_sent_bytes for each in moved), sum(each.intra_sent_bytes for each in moved)

    step()  # connections, and what is agreed once
    before = sent()
    step()
    after, plan = sent(), paro.torch.traffic_of_a_step(model, parts)
    return after[0] - before[0], plan.inter, after[1] - before[1], plan.intra


def expected_sent(strategy: str, parts: int) -> float:
    """Of a rank, between nodes, in multiples of the parameters' bytes."""
    outer = (GROUPS - 1) / GROUPS
    shard, world = outer / GROUP_SIZE, outer / GROUP_SIZE  # of the shards; of everything over all rails
    p, g, o = strategy
    total = 0.0
    if paro.torch.STRATEGIES[strategy].splits_shards:
        reductions = parts if g == "G" else 1
        return shard * reductions + shard  # and the gather
    if o == "N":
        return 2 * world
    if o == "I":
        return 2 * shard
    total += world * (parts if g == "G" else 1)  # reduce-scatter
    total += world * (2 * parts if p == "G" else 1)  # gathers: in forward and in backward
    return total


class States(unittest.TestCase):
    def test_every_state_takes_the_memory_of_its_scope(self) -> None:
        def run() -> Any:
            gc.freeze()  # what was imported is not looked through again and again
            without = live_bytes()
            return {name: bytes_of(name, without) for name in paro.torch.STRATEGIES}

        for by_name in run_ranks([2, 2], run, backend="gloo"):
            for name, (left, middle, between, reducing, reported) in by_name.items():
                with self.subTest(name):
                    self.assertLessEqual(left, SMALL, "of the models before")
                    expected = expected_bytes(name)
                    self.assertAlmostEqual(reported[0] / expected[0], 1.0, delta=CLOSE, msg=f"{reported}")
                    # What is being reduced is held beside the result until the step waits for it.
                    self.assertAlmostEqual(reported[1] / reducing, 1.0, delta=CLOSE, msg=f"{reported} {reducing}")
                    self.assertAlmostEqual(middle / expected[0], 1.0, delta=CLOSE, msg=f"{middle} {expected}")
                    self.assertAlmostEqual(between / expected[1], 1.0, delta=CLOSE, msg=f"{between} {expected}")

    def test_bytes_between_and_inside_nodes_are_what_the_strategy_needs(self) -> None:
        parts = 3

        def run() -> Any:
            return {name: sent_bytes(name, parts) for name in paro.torch.STRATEGIES}

        # The least there is takes a rail for each rank of a group: see the guide.
        with mock.patch.dict(os.environ, HORING_RAILS=str(GROUP_SIZE)):
            by_rank = run_ranks([2, 2], run)
        for name in paro.torch.STRATEGIES:
            with self.subTest(name):
                sent, planned, inside, planned_inside = (
                    sum(by_name[name][index] for by_name in by_rank) for index in range(4))
                expected = expected_sent(name, parts) * PARAMETERS * FP32 * len(by_rank)
                self.assertAlmostEqual(sent / expected, 1.0, delta=0.02, msg=f"{sent} of {expected}")
                compared = len(by_rank) * 128  # what ranks compare before a step takes less, either way
                for moved, plan in ((sent, planned), (inside, planned_inside)):
                    more = compared / 2 + 0.001 * plan
                    self.assertAlmostEqual(moved, plan + compared / 2, delta=more, msg=f"{moved} of {plan}")


class LateWork:
    """A reduce-scatter that reads its source as late as it may: in wait()."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def wait(self) -> None:
        output, source, group = self.arguments
        dist.reduce_scatter_tensor(output, source, group=group)


class Faults(unittest.TestCase):
    """Each of these is a mistake that one could make here. The comparison with one process sees it."""

    def worst(self, plant: Any, strategy: str = "IIG", parts: int = 3, clip: bool = False) -> float:
        def run() -> Any:
            plant()
            mesh = paro.torch.init_mesh("cpu", 2)
            return compared(strategy, mesh, parts, False, clip, False)

        return max(run_ranks([2, 2], run, backend="gloo"))

    def test_the_comparison_holds_without_a_fault(self) -> None:
        self.assertLess(self.worst(lambda: None, clip=True), 2e-5)

    def test_a_norm_over_the_group_alone_is_noticed(self) -> None:
        def plant() -> None:
            paro.torch.Optimizer.split_group_of = lambda *_: None  # type: ignore[method-assign, assignment]

        self.assertGreater(self.worst(plant, clip=True), 1e-3)

    def test_averaging_twice_is_noticed(self) -> None:
        finish = Reduction.finish

        def twice(self: Reduction) -> None:
            finish(self)
            if self.row_sum is not None and not self.every_sum:
                self.row_sum[: self.layout.row_elements] /= self.layout.rows

        def plant() -> None:
            Reduction.finish = twice  # type: ignore[method-assign]

        # AdamW hides a factor, the norm does not.
        self.assertGreater(self.worst(plant, clip=True), 1e-3)

    def test_leaving_out_the_sum_between_groups_is_noticed(self) -> None:
        def plant() -> None:
            import paro.torch.reduction as module

            def own_row(output: torch.Tensor, source: torch.Tensor, group: Any) -> None:
                output.copy_(source.view(dist.get_world_size(group), -1)[dist.get_rank(group)])

            module.reduce_scatter = own_row

        self.assertGreater(self.worst(plant), 1e-3)

    def test_dropping_the_sums_of_earlier_micro_batches_is_noticed(self) -> None:
        add = Reduction.add

        def alone(self: Reduction, index: int, factor: float) -> None:
            if self.sums is not None and not self.seen:
                self.sums.zero_()
            add(self, index, factor)

        def plant() -> None:
            Reduction.add = alone  # type: ignore[method-assign]

        self.assertGreater(self.worst(plant), 1e-3)

    def test_reusing_a_gradient_before_its_reduction_ends_is_noticed(self) -> None:
        start = Reduction.start

        def reused(self: Reduction) -> None:
            start(self)
            self.in_flight[-1][2].fill_(1e3)  # what an allocator does with memory that is not held

        def late() -> None:
            import paro.torch.reduction as module

            module.reduce_scatter = LateWork

        def plant() -> None:
            late()
            Reduction.start = reused  # type: ignore[method-assign]

        self.assertLess(self.worst(late), 2e-5)
        self.assertGreater(self.worst(plant), 1e-3)

    def test_reducing_in_every_micro_batch_what_should_wait_is_noticed(self) -> None:
        def plant() -> None:
            Backward._reduces = lambda *_: True  # type: ignore[method-assign]

        def run() -> Any:
            plant()
            return sent_bytes("IIG", 3)

        sent = sum(of_rank[0] for of_rank in run_ranks([2, 2], run))
        self.assertGreater(sent, 1.5 * expected_sent("IIG", 3) * PARAMETERS * FP32 * 4)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
