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
# An attribute of an exception that the other ranks have: reported again, it would find nobody.
_REPORTED = "_paro_reported"


class MismatchError(ValueError):
    """Ranks were given different things. Every rank gets it, with the field and whose it is."""


def ranks_text(ranks: list[int]) -> str:
    """How messages name ranks.

    Args:
        ranks: At least one; the first eight are shown.

    Returns:
        As "rank 3", or "ranks 0, 1".
    """
    text = ", ".join(str(rank) for rank in ranks[:8]) + (", ..." if len(ranks) > 8 else "")
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {text}"


def gathered_by_rank(mine: T, mesh: DeviceMesh | None) -> dict[int, T]:
    """Collects an object of each rank. Collective over the mesh.

    Over the default group where the mesh has all its ranks: so ranks with other meshes are met too.

    Args:
        mine: This rank's object, which is pickled.
        mesh: Whose ranks take part; None: all.

    Returns:
        The objects by global rank.
    """
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
    """Raises on all ranks where ranks have different values. Collective over the mesh.

    Args:
        fields: What must be the same, by the name that the error shows. Texts are compared.
        call: The caller's name, for errors.
        mesh: Whose ranks take part; None: all.
        error: Why this rank cannot go on, which all ranks are told.

    Raises:
        MismatchError: Names the first field that differs and whose it is, or another rank's error.
        Exception: `error` itself, on the rank that gave it.
    """
    gathered = gathered_by_rank({"call": call, "error": error and str(error), **fields}, mesh)
    if error is not None:
        setattr(error, _REPORTED, True)
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
            reported = "; ".join(f"{value} on {ranks_text(ranks)}" for value, ranks in values.items())
            raise MismatchError(f"{call}: ranks have different values of {field}: {reported}")


@contextlib.contextmanager
def checked_together(call: str, mesh: DeviceMesh | None = None) -> Iterator[dict[str, Any]]:
    """A block at whose end all ranks have the same fields, or all raise. Collective over the mesh at its end.

    Also where a rank raises inside: then all do.

    Args:
        call: The caller's name, for errors.
        mesh: Whose ranks take part; None: all.

    Yields:
        A dictionary, empty: what the block puts into it must be the same on all ranks.

    Raises:
        MismatchError: Fields differ, or another rank raised.
    """
    fields: dict[str, Any] = {}
    try:
        yield fields
    except _OF_ARGUMENTS as error:
        if not (isinstance(error, MismatchError) or hasattr(error, _REPORTED)):
            require_same(fields, call, mesh, error)
        raise
    require_same(fields, call, mesh)
