"""PyTorch's training over horing under seeded faults: two runs of one seed are equal bit by bit.

    torch_rank.py ddp|fsdp2|paro SEED STOP-FILE FOLDER [STEPS]

Until a file is there, or for so many steps. Each rank leaves its process' number in a folder, in its
folder `results` the loss of each step and a hash of all parameters that it holds after it, and rank 0
after each step the step's number. fsdp2 is torch's fully_shard, paro that of paro.torch with a
strategy by the seed.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

import horing.torch  # noqa: F401

WIDTH, ROWS, RATE = 256, 16, 1e-3


def digest(model: nn.Module) -> str:
    """Of what this rank holds of the parameters."""
    held = hashlib.sha256()
    for parameter in model.parameters():
        local = parameter.to_local() if hasattr(parameter, "to_local") else parameter
        held.update(local.detach().contiguous().numpy().tobytes())
    return held.hexdigest()[:16]


def sharded(mode: str, seed: int, model: nn.Sequential) -> torch.optim.Optimizer:
    """By torch, or by a strategy; its optimizer."""
    if mode == "fsdp2":
        for block in model:
            fully_shard(block)
        fully_shard(model)
        return torch.optim.AdamW(model.parameters(), lr=RATE)
    import paro.torch

    mesh = paro.torch.init_mesh("cpu", int(os.environ["LOCAL_WORLD_SIZE"]))
    names = list(paro.torch.STRATEGIES)
    for module in (*model, model):
        paro.torch.fully_shard(module, mesh=mesh, strategy=names[seed % len(names)])
    return paro.torch.Optimizer(torch.optim.AdamW, model, lr=RATE)  # type: ignore[return-value]


def goes_on(stop: str) -> bool:
    """Rank 0 looks for the file, for all."""
    flag = torch.tensor([0 if dist.get_rank() == 0 and os.path.exists(stop) else 1])
    dist.broadcast(flag, 0)
    return bool(flag.item())


def main() -> None:
    if len(sys.argv) not in (5, 6) or sys.argv[1] not in ("ddp", "fsdp2", "paro"):
        raise SystemExit("usage: torch_rank.py ddp|fsdp2|paro SEED STOP-FILE FOLDER [STEPS]")
    mode, seed, stop, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3], pathlib.Path(sys.argv[4])
    steps = int(sys.argv[5]) if len(sys.argv) == 6 else None
    torch.set_num_threads(1)
    dist.init_process_group("horing")
    rank = dist.get_rank()
    torch.manual_seed(seed)
    layers = nn.Sequential(
        *(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(4)), nn.Linear(WIDTH, 1)
    )
    model: nn.Module = layers
    if mode == "ddp":
        model = nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=1)
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    else:
        optimizer = sharded(mode, seed, layers)
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    (folder / "results").mkdir(exist_ok=True)
    (folder / str(rank)).write_text(f"{os.getpid()}\n", encoding="utf-8")
    step = 0
    with open(folder / "results" / str(rank), "w", encoding="utf-8") as results:
        while step < steps if steps else goes_on(stop):
            step += 1
            inputs = torch.randn(ROWS, WIDTH, generator=generator)
            loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            print(step, loss.item().hex(), digest(model), file=results, flush=True)
            if rank == 0:
                (folder / "call").write_text(f"{step}\n", encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
