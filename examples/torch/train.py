"""Trains a small GPT with PaRO on FSDP2, each state at the scope that a strategy says:

    torchrun --nproc-per-node 4 examples/torch/train.py --strategy IIG --group-size 2 --backend horing

Prints loss, tokens per second and exposed communication, memory by state, and over horing the bytes
that a rank sent inside its group and between groups, beside the plan's. --strategy auto asks the
planner, with links that the process group measured.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

import paro.torch

VOCABULARY, CONTEXT, HEADS = 64, 32, 4
WARM_UP = 3  # steps that make connections and are not timed


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.attention(self.norm_1(x)).view(batch, length, 3, HEADS, width // HEADS)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(batch, length, width))
        out: torch.Tensor = x + self.down(F.gelu(self.up(self.norm_2(x))))
        return out


class Gpt(nn.Module):
    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits: torch.Tensor = self.head(x)
        return logits


def batch_of(generator: torch.Generator, size: int, device: str) -> torch.Tensor:
    """Counts up from a random start by a random stride: learnable, and needs no download."""
    start = torch.randint(VOCABULARY, (size, 1), generator=generator)
    stride = torch.randint(1, 4, (size, 1), generator=generator)
    return ((start + stride * torch.arange(CONTEXT + 1)) % VOCABULARY).to(device)


def loss_of(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def seconds_of_computation(options: argparse.Namespace, device: str) -> tuple[float, float]:
    """Of a step's passes and of AdamW over all parameters, without any communication."""
    model = Gpt(options.width, options.layers).to(device)
    tokens = batch_of(torch.Generator().manual_seed(0), options.batch, device)
    optimizer = torch.optim.AdamW(model.parameters())

    def passes() -> None:
        for _ in range(options.accumulation):
            loss_of(model, tokens).backward()

    def seconds(call: Callable[[], object]) -> float:
        dist.barrier()
        started = time.monotonic()
        call()
        if device != "cpu":
            torch.accelerator.synchronize()
        return time.monotonic() - started

    rounds = [(seconds(passes), seconds(optimizer.step)) for _ in range(3)]
    return min(each[0] for each in rounds), min(each[1] for each in rounds)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ", ".join(paro.torch.STRATEGIES)
    parser.add_argument("--strategy", default="IIG", type=str.upper, help=f"{names} or auto (default: IIG)")
    parser.add_argument("--group-size", type=int, help="ranks with fast links among them (default: a node's)")
    parser.add_argument("--backend", choices=["gloo", "horing", "nccl"], default="gloo")
    parser.add_argument("--accumulation", type=int, default=2, help="micro-batches of a step (default: 2)")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int, default=8, help="sequences per rank and micro-batch (default: 8)")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--memory", type=float, help="MB of a rank for all states, for auto")
    parser.add_argument("--explain", action="store_true", help="print what holds, then train")
    options = parser.parse_args()
    if options.strategy not in (*paro.torch.STRATEGIES, "AUTO"):
        parser.error(f"--strategy {options.strategy}: takes {names} or auto")
    for name in ("group_size", "accumulation", "steps", "batch", "width", "layers", "memory"):
        value = getattr(options, name)
        if value is not None and not value > 0:
            parser.error(f"--{name.replace('_', '-')} {value}: takes a number above 0")
    if options.width % HEADS != 0:
        parser.error(f"--width {options.width}: takes a multiple of the {HEADS} heads")
    if options.backend == "nccl" and not torch.cuda.is_available():
        parser.error("--backend nccl: torch finds no GPU here; use gloo or horing")
    return options


def main() -> None:
    options = parsed()
    if "LOCAL_RANK" not in os.environ:
        raise SystemExit("train.py: start it with torchrun, as its help says")
    torch.set_num_threads(1)
    device = "cpu"
    if options.backend == "nccl":
        device = "cuda"
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if options.backend == "horing" and options.group_size:
        # Each group of this machine is a node of its own, as far as horing can tell.
        os.environ.setdefault("HORING_HOST_ID", f"group{int(os.environ['RANK']) // options.group_size}")
    dist.init_process_group(options.backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()

    def say(text: str) -> None:
        if rank == 0:
            print(text, flush=True)

    torch.manual_seed(1)
    model = Gpt(options.width, options.layers).to(device)
    mesh = paro.torch.init_mesh(device, options.group_size)
    compute, update = seconds_of_computation(options, device)
    strategy = options.strategy
    if strategy == "AUTO":
        strategy, why = paro.torch.choose_strategy(
            model, mesh, memory_bytes=options.memory and options.memory * 1e6, layers=options.layers,
            accumulation=options.accumulation, compute_seconds=compute, update_seconds=update)
        say(f"auto: {why}")
    for block in model.blocks:
        paro.torch.fully_shard(block, mesh=mesh, strategy=strategy)
    paro.torch.fully_shard(model, mesh=mesh, strategy=strategy)
    optimizer = paro.torch.Optimizer(torch.optim.AdamW, model, lr=3e-3)
    groups = {mesh.get_group(0), mesh.get_group(1), dist.group.WORLD}

    def sent() -> tuple[int, int]:
        if options.backend != "horing":
            return 0, 0
        import horing.torch

        moved = [horing.torch.traffic(group) for group in groups]
        return sum(m.intra_sent_bytes for m in moved), sum(m.inter_sent_bytes for m in moved)

    generator = torch.Generator().manual_seed(rank)
    started, before = 0.0, (0, 0)
    for step in range(options.steps + WARM_UP):
        if step == WARM_UP:
            started, before = time.monotonic(), sent()
        for index in range(options.accumulation):
            with paro.torch.microbatch(model, last=index + 1 == options.accumulation):
                loss = loss_of(model, batch_of(generator, options.batch, device)) / options.accumulation
                loss.backward()
        if step == WARM_UP:
            held = paro.torch.memory(model)
            if options.explain:
                say(paro.torch.explain(model, options.accumulation))
        optimizer.step()
        optimizer.zero_grad()
        if step >= WARM_UP and (step - WARM_UP) % 10 == 9:
            say(f"step {step - WARM_UP + 1}: loss {loss.item() * options.accumulation:.3f}")
    if device != "cpu":
        torch.accelerator.synchronize()
    seconds = (time.monotonic() - started) / options.steps
    moved = torch.tensor([float(now - then) for now, then in zip(sent(), before, strict=True)], device=device)
    dist.all_reduce(moved)
    intra, inter = (moved / options.steps / ranks).tolist()
    tokens = ranks * options.accumulation * options.batch * CONTEXT / seconds
    say(f"{strategy} over {options.backend}: {tokens:.0f} tokens/s, a step takes {seconds * 1e3:.1f} ms, "
        f"{max(seconds - compute, 0) * 1e3:.1f} ms of it exposed communication")
    say(f"rank 0 holds after backward: parameters {held.parameters / 1e6:.2f} MB, gradients "
        f"{held.gradients / 1e6:.2f} MB, optimizer state {held.optimizer / 1e6:.2f} MB")
    plan = paro.torch.traffic_of_a_step(model, options.accumulation)
    if options.backend == "horing":
        say(f"a rank sent in a step, on average, {intra / 1e6:.2f} MB inside its group (plan {plan.intra / 1e6:.2f}), "
            f"{inter / 1e6:.2f} MB between groups (plan {plan.inter / 1e6:.2f})")
    else:
        say(f"plan: a rank sends in a step {plan.intra / 1e6:.2f} MB inside its group, {plan.inter / 1e6:.2f} MB "
            "between groups")
    dist.barrier()  # a rank of gloo that ends first can take others down in their end
    dist.destroy_process_group()
    if options.backend == "gloo":
        # A thread of gloo that still holds a tensor when Python ends aborts the process (pytorch#190489).
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
