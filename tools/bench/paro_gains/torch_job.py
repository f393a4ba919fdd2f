"""A rank of `tools/bench/gains --cases torch`: a small GPT under DDP and FSDP2, over gloo, over horing with flat rings and over
horing as it is, in turns. Rank 0 prints one JSON object: seconds by step of the slowest rank.

"compute" is the same step without any communication: what is above it in a step is exposed communication.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import horing.torch  # noqa: F401

VOCABULARY, WIDTH, LAYERS = 256, 192, 4
CONTEXT, STEPS = 32, 2  # STEPS: in a turn


class Gpt(nn.Module):
    def __init__(self, context: int) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("causal", nn.Transformer.generate_square_subsequent_mask(context))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(tokens)
        for block in self.blocks:
            hidden = block(hidden, src_mask=self.causal, is_causal=True)
        logits: torch.Tensor = self.head(hidden)
        return logits


@contextlib.contextmanager
def variable(name: str, value: str | None) -> Iterator[None]:
    before = os.environ.pop(name, None)
    if value is not None:
        os.environ[name] = value
    yield
    os.environ.pop(name, None)
    if before is not None:
        os.environ[name] = before


def groups() -> dict[str, dist.ProcessGroup]:
    """By system. What chooses horing's algorithm is read when a group is made."""
    made = {"gloo": dist.group.WORLD}
    for system, algorithm in (("multi_ring", "multi_ring"), ("horing", None)):
        with variable("HORING_ALGORITHM", algorithm):
            made[system] = dist.new_group(backend="horing")
    return made


def tokens_of_this_rank(context: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(dist.get_rank())
    return torch.randint(VOCABULARY, (1, context + 1), generator=generator)


def loss_of(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def in_turns(steps: dict[str, Callable[[], None]], rounds: int, times: int = 1) -> dict[str, list[float]]:
    """Seconds of each step, made so many times in a turn, round by round: the slowest rank's."""
    seconds: dict[str, list[float]] = {key: [] for key in steps}
    for turn in range(-1, rounds):  # the first round makes connections and is not counted
        for key, step in steps.items():
            dist.barrier()
            started = time.monotonic()
            for _ in range(times):
                step()
            spent = torch.tensor([(time.monotonic() - started) / times])
            dist.all_reduce(spent, dist.ReduceOp.MAX)
            if turn >= 0:
                seconds[key].append(spent.item())
    return seconds


def step_of(model: nn.Module, tokens: torch.Tensor) -> Callable[[], None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step() -> None:
        loss = loss_of(model, tokens)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def sharded(model: Gpt, group: dist.ProcessGroup) -> nn.Module:
    mesh = DeviceMesh.from_group(group, "cpu")
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    # All NICs of the emulated node, one connection after the other on each.
    rails = sorted(name for name in os.listdir("/sys/class/net") if name.startswith("rail"))
    os.environ.setdefault("GLOO_SOCKET_IFNAME", ",".join(rails))
    dist.init_process_group("gloo")
    tokens = tokens_of_this_rank(CONTEXT)
    steps = {"none compute": step_of(Gpt(CONTEXT), tokens)}
    for system, group in groups().items():
        steps[f"ddp {system}"] = step_of(DistributedDataParallel(Gpt(CONTEXT), process_group=group), tokens)
        steps[f"fsdp {system}"] = step_of(sharded(Gpt(CONTEXT), group), tokens)
    seconds = in_turns(steps, options.rounds, STEPS)
    if dist.get_rank() == 0:
        parameters = sum(each.numel() for each in Gpt(CONTEXT).parameters())
        print(json.dumps({"parameters": parameters, "ranks": dist.get_world_size(), "torch": torch.__version__,
                          "seconds": seconds}))
    dist.barrier()
    dist.destroy_process_group()
    # A thread of gloo that still holds a tensor when Python ends aborts the process (pytorch#190489).
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
