"""Trains a small model with DDP over gloo or horing, on CPUs:

    torchrun --nproc-per-node 4 examples/torch/ddp.py --backend horing

Prints loss, tokens per second, and how many bytes one rank sent inside and between nodes. On one
machine --nodes says into how many nodes its ranks are put, as HORING_HOST_ID does: data between them
crosses TCP over loopback.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

VOCABULARY, CONTEXT = 64, 32


class Model(nn.Module):
    """Predicts the next token: embedding, two blocks of a transformer, a linear head."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(torch.zeros(CONTEXT, width))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, nhead=4, dim_feedforward=4 * width, dropout=0.0, batch_first=True
            )
            for _ in range(2)
        )
        self.head = nn.Linear(width, VOCABULARY)
        causal = nn.Transformer.generate_square_subsequent_mask(CONTEXT)
        self.register_buffer("causal", causal)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(tokens) + self.positions
        for block in self.blocks:
            hidden = block(hidden, src_mask=self.causal, is_causal=True)
        logits: torch.Tensor = self.head(hidden)
        return logits


def batch_of(generator: torch.Generator, size: int) -> torch.Tensor:
    """Counts up from a random start by a random stride: learnable, and needs no download."""
    start = torch.randint(VOCABULARY, (size, 1), generator=generator)
    stride = torch.randint(1, 4, (size, 1), generator=generator)
    return (start + stride * torch.arange(CONTEXT + 1)) % VOCABULARY


def put_into_nodes(nodes: int) -> None:
    rank, ranks = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    if ranks % nodes != 0:
        raise SystemExit(f"ddp.py: --nodes {nodes} does not divide the {ranks} ranks here")
    if nodes > 1 and "HORING_HOST_ID" not in os.environ:
        os.environ["HORING_HOST_ID"] = f"node{rank * nodes // ranks}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", choices=["gloo", "horing"], default="horing")
    parser.add_argument("--nodes", type=int, default=2, help="on this machine (default: 2)")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=16, help="sequences per rank and step")
    parser.add_argument("--width", type=int, default=128)
    options = parser.parse_args()
    if "LOCAL_RANK" not in os.environ:
        raise SystemExit("ddp.py: start it with torchrun, as its help says")
    torch.set_num_threads(1)
    if options.backend == "horing":
        put_into_nodes(options.nodes)
        import horing.torch
    dist.init_process_group(options.backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(1)
    model = DistributedDataParallel(Model(options.width))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(rank)
    started, counted = time.monotonic(), 0
    for step in range(1, options.steps + 1):
        tokens = batch_of(generator, options.batch)
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        counted += ranks * options.batch * CONTEXT
        if step % 10 == 0:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            if rank == 0:
                rate = counted / (time.monotonic() - started)
                print(f"step {step}: loss {mean.item() / ranks:.3f}, {rate:.0f} tokens/s", flush=True)
    if options.backend == "horing" and rank == 0:
        traffic = horing.torch.traffic()
        print(
            f"rank 0 sent {traffic.intra_sent_bytes / 1e6:.1f} MB inside its node and "
            f"{traffic.inter_sent_bytes / 1e6:.1f} MB to others"
        )
    dist.barrier()  # a rank of gloo that ends first can take others down in their end
    dist.destroy_process_group()
    if options.backend == "gloo":
        # A thread of gloo that still holds a tensor when Python ends aborts the process (pytorch#190489).
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
