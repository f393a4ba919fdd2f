"""What must be the same on all ranks, compared before anything depends on it."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist


class MismatchError(ValueError):
    """Ranks were given different things. Every rank of the group gets it."""


def _ranks(ranks: list[int]) -> str:
    text = ", ".join(str(rank) for rank in ranks[:8]) + (", ..." if len(ranks) > 8 else "")
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {text}"


def require_same(fields: dict[str, Any], what: str, group: dist.ProcessGroup | None = None) -> None:
    """Collective. Raises MismatchError that names the first field that differs, and whose it is."""
    gathered: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(gathered, fields, group=group)
    members = dist.get_process_group_ranks(group or dist.group.WORLD)
    for field in gathered[0]:
        values: dict[str, list[int]] = {}
        for rank, theirs in zip(members, gathered, strict=True):
            values.setdefault(str(theirs.get(field, "not given")), []).append(rank)
        if len(values) > 1:
            told = "; ".join(f"{value} on {_ranks(ranks)}" for value, ranks in values.items())
            raise MismatchError(f"{what}: ranks have different values of {field}: {told}")
