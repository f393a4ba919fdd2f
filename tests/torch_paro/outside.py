"""Models of other projects, unmodified, under three strategies and under plain FSDP2: the same losses.
By hand, in an environment with torch, horing and what you fetched:

    PYTHONPATH=tests/torch_backend python tests/torch_paro/outside.py nanogpt --file PATH/TO/nanoGPT/model.py
    PYTHONPATH=tests/torch_backend python tests/torch_paro/outside.py torchtitan

nanoGPT is github.com/karpathy/nanoGPT; torchtitan is the package, 0.2 (it takes triton beside it).
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import paro.torch
from ranks import run_ranks

STEPS, ROWS, CONTEXT, VOCABULARY = 20, 2, 32, 65
STRATEGIES = ("IIG", "NIG", "IGG")
CLOSE = 2e-5


@dataclass
class Trained:
    model: Any
    blocks: list[Any]
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # of tokens and the next ones


def nanogpt(path: str) -> Trained:
    spec = importlib.util.spec_from_file_location("nanogpt_model", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["nanogpt_model"] = module
    spec.loader.exec_module(module)
    torch.manual_seed(1)
    config = module.GPTConfig(
        block_size=CONTEXT, vocab_size=VOCABULARY, n_layer=3, n_head=4, n_embd=64, dropout=0.0, bias=True
    )
    model = module.GPT(config)
    return Trained(model, list(model.transformer.h), lambda tokens, following: model(tokens, following)[1])


def torchtitan(_path: str) -> Trained:
    args = importlib.import_module("torchtitan.models.llama3.model.args")
    module = importlib.import_module("torchtitan.models.llama3.model.model")
    torch.manual_seed(1)
    model = module.Transformer(
        args.TransformerModelArgs(dim=64, n_layers=3, n_heads=4, vocab_size=VOCABULARY, max_seq_len=CONTEXT)
    )
    with torch.no_grad():
        model.init_weights()

    def loss(tokens: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(tokens).flatten(0, 1), following.flatten())

    return Trained(model, list(model.layers.values()), loss)


MODELS = {"nanogpt": nanogpt, "torchtitan": torchtitan}


def losses(name: str, path: str, strategy: str | None) -> list[float]:
    """Means over the ranks by step; without a strategy plain FSDP2's."""
    trained = MODELS[name](path)
    model, blocks = trained.model, trained.blocks
    if strategy is None:
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for block in blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    else:
        mesh = paro.torch.init_mesh("cpu", 2)
        for block in blocks:
            paro.torch.fully_shard(block, mesh=mesh, strategy=strategy)
        paro.torch.fully_shard(model, mesh=mesh, strategy=strategy)
        optimizer = paro.torch.Optimizer(torch.optim.AdamW, model, lr=1e-3)
    generator = torch.Generator().manual_seed(dist.get_rank())
    found = []
    for _ in range(STEPS):
        start = torch.randint(VOCABULARY, (ROWS, 1), generator=generator)
        tokens = (start + torch.arange(CONTEXT + 1)) % VOCABULARY
        loss = trained.loss(tokens[:, :-1], tokens[:, 1:].contiguous())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        found.append(mean.item() / dist.get_world_size())
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=list(MODELS))
    parser.add_argument("--file", default="", help="nanoGPT's model.py")
    options = parser.parse_args()

    def run() -> dict[str, list[float]]:
        return {name or "FSDP2": losses(options.model, options.file, name) for name in (None, *STRATEGIES)}

    by_name = run_ranks([2, 2], run)[0]
    reference = by_name["FSDP2"]
    good = True
    for name, found in by_name.items():
        worst = max(abs(a - b) / b for a, b in zip(found, reference, strict=True))
        good = good and worst < CLOSE
        print(f"{options.model} {name:<6} loss {found[0]:.5f} to {found[-1]:.5f}, at most {worst:.1e} from FSDP2")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
