"""Models, data and the reference of the PaRO suite: one process with torch's own optimizer."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

WIDTH, CLASSES = 12, 5
BATCH = 36  # rows of a step, over all ranks and micro-batches: 4 and 6 ranks, 1 and 3 of them, divide it


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, 3 * WIDTH)
        self.second = nn.Linear(3 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(torch.tanh(self.first(x)))


class Model(nn.Module):
    """Two blocks and a head of 5 rows, which no group of ranks divides."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        logits: torch.Tensor = self.head(self.norm(x))
        return logits


def freeze(model: Model) -> None:
    """The first linear layer of each block, and one bias: part of a unit."""
    for block in model.blocks:
        block.first.requires_grad_(False)  # type: ignore[union-attr, operator]
    model.head.bias.requires_grad_(False)


def data_of(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 + step)
    x = torch.randn(BATCH, WIDTH, generator=generator)
    return x, torch.randint(CLASSES, (BATCH,), generator=generator)


def micro_batches(step: int, rank: int, ranks: int, parts: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    x, y = data_of(step)
    return list(zip(x.chunk(ranks)[rank].chunk(parts), y.chunk(ranks)[rank].chunk(parts), strict=True))


def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor, parts: int) -> torch.Tensor:
    return nn.functional.cross_entropy(model(x).float(), y) / parts


def trained_alone(
    model: nn.Module, steps: int, optimizer_of: Callable[[Any], torch.optim.Optimizer], clip: float | None
) -> tuple[list[float], list[float], dict[str, torch.Tensor]]:
    """Losses and norms by step, and the parameters, of one process."""
    model = copy.deepcopy(model)
    optimizer = optimizer_of([p for p in model.parameters() if p.requires_grad])
    losses, norms = [], []
    for step in range(steps):
        loss = loss_of(model, *data_of(step), 1)
        loss.backward()
        if clip is not None:
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), clip).item())
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, norms, {name: p.detach() for name, p in model.named_parameters()}
