"""What must be the same on all ranks, compared before anything depends on it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, TypeVar

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

T = TypeVar("T")

# What a call raises that was given something wrong; a collective that fails raises others.
_OF_ARGUMENTS = (
    AssertionError, AttributeError, LookupError, NotImplementedError, OverflowError, TypeError, ValueError
)  # fmt: skip


class MismatchError(ValueError):
    """Ranks were given different things. Every rank gets it."""


def ranks_text(ranks: list[int]) -> str:
    text = ", ".join(str(rank) for rank in ranks[:8]) + (", ..." if len(ranks) > 8 else "")
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {text}"


def gathered_by_rank(mine: T, mesh: DeviceMesh | None) -> dict[int, T]:
    """Collective over the mesh [all ranks]. Over the default group where the mesh has all its ranks: so ranks with other meshes
    are met too."""
    groups: list[dist.ProcessGroup | None] = [None]
    if isinstance(mesh, DeviceMesh) and mesh.size() < dist.get_world_size():
        groups = [mesh.get_group(dimension) for dimension in range(mesh.ndim)]
    by_rank = {dist.get_rank(): mine}
    for group in groups:
        parts: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(parts, by_rank, group=group)
        by_rank = {rank: each for part in parts for rank, each in part.items()}
    return by_rank


def require_same(
    fields: dict[str, Any], call: str, mesh: DeviceMesh | None = None, error: Exception | None = None
) -> None:
    """Collective over the mesh [all ranks]. Raises MismatchError that names the first field that
    differs and whose it is. `error`: why this rank cannot go on, which all ranks are told."""
    gathered = gathered_by_rank({"call": call, "error": error and str(error), **fields}, mesh)
    if error is not None:
        error._paro_told = True  # type: ignore[attr-defined]
        raise error
    failed: dict[str, list[int]] = {}
    for rank, theirs in gathered.items():
        if theirs["error"] is not None:
            failed.setdefault(theirs["error"], []).append(rank)
    for text, ranks in failed.items():
        raise MismatchError(f"{call}: {ranks_text(ranks)} {'has' if len(ranks) == 1 else 'have'} an error: {text}")
    for field in dict.fromkeys(field for theirs in gathered.values() for field in theirs):
        values: dict[str, list[int]] = {}
        for rank, theirs in gathered.items():
            values.setdefault(str(theirs.get(field, "not given")), []).append(rank)
        if len(values) > 1:
            told = "; ".join(f"{value} on {ranks_text(ranks)}" for value, ranks in values.items())
            raise MismatchError(f"{call}: ranks have different values of {field}: {told}")


@contextlib.contextmanager
def checked_together(call: str, mesh: DeviceMesh | None = None) -> Iterator[dict[str, Any]]:
    """Collective over the mesh [all ranks] at its end, also where a rank raises inside: then all do.
    What the block puts into the fields must be the same on all ranks."""
    fields: dict[str, Any] = {}
    try:
        yield fields
    except _OF_ARGUMENTS as error:
        if not (isinstance(error, MismatchError) or hasattr(error, "_paro_told")):
            require_same(fields, call, mesh, error)
        raise
    require_same(fields, call, mesh)
