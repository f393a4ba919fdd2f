"""DDP and FSDP2 over horing give the losses that one process gives; with --full they do over gloo, too. With
a torch that has CUDA, where there is a GPU: with models on it, without gloo."""

from __future__ import annotations

import contextlib
import functools
import sys
import unittest
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from cuda_tensors import ON_GPU
from ranks import run_ranks

FULL = "--full" in sys.argv  # for unittest it is no argument
if FULL:
    sys.argv.remove("--full")

STEPS, BATCH, WIDTH = 4, 12, 24  # BATCH: sequences of a step, over all ranks; 2, 3, 4 and 6 divide it
CLOSE = 2e-5  # fp32
DEVICE = "cuda" if ON_GPU else "cpu"


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, 4 * WIDTH)
        self.second = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(torch.tanh(self.first(x)))


class Model(nn.Module):
    def __init__(self, checkpointed: bool = False) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(WIDTH, 5)  # an odd number, which no group of ranks divides
        self.checkpointed = checkpointed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        logits: torch.Tensor = self.head(x)
        return logits


def data_of(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 + step)
    x = torch.randn(BATCH, WIDTH, generator=generator)
    return x, torch.randint(5, (BATCH,), generator=generator)


def mine(tensor: torch.Tensor, parts: int) -> list[torch.Tensor]:
    """This rank's rows, in as many micro-batches."""
    rank, ranks = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    return list(tensor.chunk(ranks)[rank].chunk(parts))


def train(model: nn.Module, micro_batches: int = 1, syncs: Any = None) -> list[float]:
    """Mean losses of all ranks by step. `syncs(last)`: around each micro-batch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    device = next(model.parameters()).device
    losses = []
    for step in range(STEPS):
        x, y = (each.to(device) for each in data_of(step))
        total = torch.zeros((), device=device)
        for index, (rows, labels) in enumerate(
            zip(mine(x, micro_batches), mine(y, micro_batches), strict=True)
        ):
            last = index + 1 == micro_batches
            with syncs(last) if syncs is not None else contextlib.nullcontext():
                loss = nn.functional.cross_entropy(model(rows), labels) / micro_batches
                loss.backward()
            total += loss.detach()
        optimizer.step()
        optimizer.zero_grad()
        if dist.is_initialized():
            dist.all_reduce(total)
            total /= dist.get_world_size()
        losses.append(total.item())
    return losses


def ddp(micro_batches: int = 1, compiled: bool = False, checkpointed: bool = False, **options: Any) -> list[float]:
    model = Model(checkpointed).to(DEVICE)
    if compiled:
        for block in model.blocks:
            block.compile()
    wrapped = DistributedDataParallel(model, **options)

    def syncs(last: bool) -> Any:
        return contextlib.nullcontext() if last else wrapped.no_sync()

    return train(wrapped, micro_batches, syncs)


def fsdp(
    shape: tuple[int, ...] | None = None, micro_batches: int = 1, checkpointed: bool = False,
    **options: Any,
) -> list[float]:
    model = Model(checkpointed).to(DEVICE)
    names = ("replicate", "shard") if shape is not None else ("shard",)
    mesh = init_device_mesh(DEVICE, shape or (dist.get_world_size(),), mesh_dim_names=names)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, **options)
    fully_shard(model, mesh=mesh, **options)

    def syncs(last: bool) -> Any:
        model.set_requires_gradient_sync(last)
        return contextlib.nullcontext()

    return train(model, micro_batches, syncs)


@functools.cache
def alone_with(micro_batches: int) -> list[float]:
    """In a process of its own: after a backward here, torch's engine refuses to run in forked ones."""
    losses: list[float] = run_ranks([1], lambda: train(Model(), micro_batches))[0]
    return losses


class Trained(unittest.TestCase):
    def assert_same(self, nodes: list[int], body: Any, *arguments: Any, **options: Any) -> None:
        alone = alone_with(options.get("micro_batches", 1))

        def run() -> Any:
            if ON_GPU:
                torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
            return body(*arguments, **options)

        over_horing = run_ranks(nodes, run)
        over_gloo = [] if ON_GPU or not FULL else run_ranks(nodes, run, backend="gloo")
        for losses in over_horing + over_gloo:
            for step, (loss, reference) in enumerate(zip(losses, alone, strict=True)):
                self.assertLess(abs(loss - reference), CLOSE, f"step {step}: {losses} {alone}")


class Ddp(Trained):
    def test_ddp_of_two_nodes_with_two_ranks(self) -> None:
        self.assert_same([2, 2], ddp)

    def test_ddp_of_one_node_with_four_ranks(self) -> None:
        self.assert_same([4], ddp, gradient_as_bucket_view=True)

    def test_ddp_of_two_nodes_with_three_ranks(self) -> None:
        self.assert_same([3, 3], ddp)

    def test_ddp_of_nodes_with_three_ranks_and_one(self) -> None:
        self.assert_same([3, 1], ddp, bucket_cap_mb=0.01)

    def test_ddp_that_accumulates_without_sync(self) -> None:
        self.assert_same([2, 2], ddp, micro_batches=3)

    def test_ddp_with_a_static_graph(self) -> None:
        self.assert_same([2, 2], ddp, static_graph=True)

    def test_ddp_with_checkpointed_activations(self) -> None:
        self.assert_same([2, 2], ddp, checkpointed=True)

    def test_ddp_with_compiled_blocks(self) -> None:
        self.assert_same([2], ddp, compiled=True)


@unittest.skipUnless(hasattr(torch.cpu.Stream, "record_event"), "FSDP2 of this torch does not run on CPUs")
class Fsdp2(Trained):
    def test_fsdp_of_two_nodes_with_two_ranks(self) -> None:
        self.assert_same([2, 2], fsdp)

    def test_fsdp_of_one_node_with_four_ranks(self) -> None:
        self.assert_same([4], fsdp, reshard_after_forward=False)

    def test_fsdp_of_two_nodes_with_three_ranks(self) -> None:
        self.assert_same([3, 3], fsdp)

    def test_fsdp_of_nodes_with_three_ranks_and_one(self) -> None:
        self.assert_same([3, 1], fsdp)

    def test_fsdp_sharded_inside_nodes_and_replicated_between(self) -> None:
        self.assert_same([2, 2], fsdp, (2, 2))

    def test_fsdp_that_accumulates_without_sync(self) -> None:
        self.assert_same([2, 2], fsdp, micro_batches=3)

    def test_fsdp_with_checkpointed_activations(self) -> None:
        self.assert_same([2, 2], fsdp, checkpointed=True)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
