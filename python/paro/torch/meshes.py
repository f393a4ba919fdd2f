"""Meshes of two dimensions: between groups ("inter") and inside them ("intra")."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.utils.weak import WeakIdKeyDictionary

from paro.torch.agreement import require_same
from paro.torch.strategies import Scope, Strategy

NAMES = ("inter", "intra")
ADVICE = (
    'make one with paro.torch.init_mesh(device_type, group_size=...), or init_device_mesh(device_type, '
    '(groups, group_size), mesh_dim_names=("inter", "intra"))'
)


def init_mesh(device_type: str, group_size: int | None = None) -> DeviceMesh:
    """A mesh of all ranks with the dimensions "inter" and "intra". Collective.

    Its groups have the timeout of the default group.

    Args:
        device_type: "cpu" or "cuda".
        group_size: Successive ranks that form a group; None: the ranks of this node, as
            LOCAL_WORLD_SIZE has it.

    Returns:
        A mesh of (ranks / group_size, group_size).

    Raises:
        ValueError: Groups of this size do not divide the ranks; on the rank that asked for it.
        MismatchError: Ranks ask for different meshes, or another rank has an error.
    """
    ranks = dist.get_world_size()
    if group_size is None:
        group_size = int(os.environ.get("LOCAL_WORLD_SIZE", ranks))
    error = None
    if group_size < 1 or ranks % group_size != 0:
        error = ValueError(f"init_mesh: groups of {group_size} ranks do not divide the {ranks} ranks")
    require_same({"group size": group_size, "device type": device_type}, "init_mesh", error=error)
    shape = (ranks // group_size, group_size)
    return _mesh_of_all(device_type, shape)


def _mesh_of_all(device_type: str, shape: tuple[int, int]) -> DeviceMesh:
    mesh = init_device_mesh(device_type, shape, mesh_dim_names=NAMES)
    return _limited(mesh, dist.group.WORLD)


def _limited(mesh: DeviceMesh, other: dist.ProcessGroup | None) -> DeviceMesh:
    """With the timeout of another group: torch makes a mesh's groups with its default of 10 or 30 minutes."""
    assert other is not None
    backend = other._get_backend(torch.device(mesh.device_type))
    timeout = getattr(getattr(backend, "options", backend), "_timeout", None)
    if timeout is not None:
        for group in mesh.get_all_groups():
            group.set_timeout(timeout)
    return mesh


def world_of(mesh: DeviceMesh) -> DeviceMesh:
    """The ranks of a mesh in one dimension. Collective where it makes a group.

    Args:
        mesh: Of one dimension or two.

    Returns:
        The mesh itself where it has one dimension.
    """
    if mesh.ndim == 1:
        return mesh
    world = dist.group.WORLD
    if world is not None and mesh.mesh.flatten().tolist() == list(range(world.size())):
        return DeviceMesh.from_group(world, mesh.device_type, mesh_dim_names=("world",))
    return _limited(mesh._flatten(), mesh.get_group(0))


# What fully_shard has agreed on for a mesh, by scope, with the mesh of its own that NNN takes. It is not in the
# mesh, which state dicts pickle, and nothing in it holds the mesh.
_agreed: Any = WeakIdKeyDictionary()


def shard_mesh(mesh: DeviceMesh, strategy: Strategy) -> DeviceMesh:
    """The mesh that FSDP2 gets. Collective the first time for a mesh and scope.

    Args:
        mesh: What fully_shard was given.
        strategy: The strategy.

    Returns:
        One dimension, of shards, or two: replicas and shards.

    Raises:
        ValueError: The mesh does not fit the strategy.
        MismatchError: Ranks have different strategies or meshes.
    """
    agreed: dict[tuple[Scope, bool], DeviceMesh | None] = _agreed.setdefault(mesh, {})
    key = (strategy.shards, strategy.splits_shards)
    if key not in agreed:
        _check(mesh, strategy)
        compared = {"strategy": str(strategy), "mesh": mesh.mesh.tolist()}
        require_same(compared, "fully_shard", mesh)
        # All ranks are replicas of shards of one rank.
        alone = strategy.shards is Scope.N
        agreed[key] = _mesh_of_all(mesh.device_type, (mesh.size(), 1)) if alone else None
    return agreed[key] or _part_of(mesh, strategy)


def check_dimensions(mesh: DeviceMesh, call: str) -> None:
    """Checks that a mesh has two dimensions with names.

    Args:
        mesh: The mesh.
        call: The caller's name, for errors.

    Raises:
        ValueError: It has not. The text says how to make one.
    """
    if mesh.ndim != 2:
        raise ValueError(f"{call}: the mesh has {mesh.ndim} dimension{'s' * (mesh.ndim > 1)}, not 2; {ADVICE}")
    if mesh.mesh_dim_names is None:
        raise ValueError(f"{call}: the dimensions of the mesh have no names; {ADVICE}")


def _check(mesh: DeviceMesh, strategy: Strategy) -> None:
    if mesh.ndim > 2:
        check_dimensions(mesh, "fully_shard")
    if strategy.shards is Scope.N and mesh.size() != dist.get_world_size():
        raise ValueError(
            f"fully_shard: strategy NNN takes a mesh of all {dist.get_world_size()} ranks, this one has "
            f"{mesh.size()}; III keeps copies between groups on any mesh"
        )
    if strategy.shards is Scope.I and mesh.ndim == 1:
        raise ValueError(
            f"fully_shard: strategy {strategy} needs a mesh with an inner dimension, this one has "
            f"{mesh.size()} ranks in one; {ADVICE}"
        )
    if strategy.shards is Scope.I:
        check_dimensions(mesh, "fully_shard")


def _part_of(mesh: DeviceMesh, strategy: Strategy) -> DeviceMesh:
    """Makes groups the first time only, so that it is collective no more often than shard_mesh."""
    if strategy.shards is Scope.G:
        return world_of(mesh)
    assert mesh.mesh_dim_names is not None
    return mesh[mesh.mesh_dim_names[1]] if strategy.splits_shards else mesh
