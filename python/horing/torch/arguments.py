"""Arguments of torch's calls, as horing takes them."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from horing.torch import tensors as memory
from horing.types import ReduceOp

_OPS = {
    dist.ReduceOp.SUM: ReduceOp.SUM,
    dist.ReduceOp.AVG: ReduceOp.AVG,
    dist.ReduceOp.PRODUCT: ReduceOp.PROD,
    dist.ReduceOp.MIN: ReduceOp.MIN,
    dist.ReduceOp.MAX: ReduceOp.MAX,
    dist.ReduceOp.BAND: ReduceOp.BAND,
    dist.ReduceOp.BOR: ReduceOp.BOR,
    dist.ReduceOp.BXOR: ReduceOp.BXOR,
    dist.ReduceOp.PREMUL_SUM: ReduceOp.PREMUL_SUM,
}
# Up to here a coalesced call copies tensors into one; above, the copy costs more than it saves.
_COALESCED_BYTES = 1 << 20
# Between two looks into a store.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.05


class TorchStore:
    """A torch Store as horing takes it. Keys of one group: the store is already the group's."""

    def __init__(self, store: c10d.Store):
        self._store = store

    def set(self, key: str, value: bytes) -> None:
        self._store.set(key, value)  # type: ignore[arg-type]  # it takes bytes as well

    def wait(self, key: str, timeout: float) -> None:
        """Asks again and again: a wait of torch's stores that ends without the key logs warnings, and
        this one is called in slices."""
        until = time.monotonic() + timeout
        pause = _FIRST_PAUSE_S
        while not self._store.check([key]):
            if time.monotonic() + pause > until:
                raise TimeoutError(f"nobody has set {key} in the group's store")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def get(self, key: str) -> bytes:
        return bytes(self._store.get(key))


def reduce_op(given: Any) -> tuple[ReduceOp, float]:
    """Our operation, and the factor of PREMUL_SUM."""
    ours = _OPS.get(getattr(given, "op", given))
    if ours is None:
        raise ValueError(f"horing has no reduction {given}")
    scale = 1.0
    if ours == ReduceOp.PREMUL_SUM:
        factor = given.__getstate__()[1]
        scale = float(factor.item() if isinstance(factor, torch.Tensor) else factor)
    return ours, scale


def one_of(tensors: Any, what: str) -> torch.Tensor:
    """The only tensor of a list of one."""
    if isinstance(tensors, torch.Tensor):
        return memory.check(tensors, what)
    if len(tensors) != 1:
        raise ValueError(f"{what}: one tensor per rank, not {len(tensors)}")
    return memory.check(tensors[0], what)


def list_of(tensors: Any, what: str) -> list[torch.Tensor]:
    """The tensors of a list, or of a list of one list."""
    if len(tensors) > 0 and not isinstance(tensors[0], torch.Tensor):
        if len(tensors) != 1:
            raise ValueError(f"{what}: one list of tensors per rank, not {len(tensors)}")
        tensors = tensors[0]
    checked = [memory.check(each, what) for each in tensors]
    if not checked:
        raise ValueError(f"{what}: a tensor for each rank, not an empty list")
    if any(each.dtype != checked[0].dtype for each in checked):
        raise ValueError(f"{what}: tensors of one type, not {[each.dtype for each in checked]}")
    memory.check_one_device(checked, what)
    return checked


def options_of(given: Any, kind: type, timeout: timedelta | None = None) -> Any:
    """The options of the call. Some callers pass the fields instead."""
    if given is None or isinstance(given, (dist.ReduceOp, dist.ReduceOp.RedOpType)):
        options = kind()
        if given is not None:
            options.reduceOp = given
        if timeout is not None:
            options.timeout = timeout
        return options
    return given


def batches_of(tensors: list[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Small tensors of one type and device together, large ones alone; the same on every rank."""
    if len(tensors) == 1:
        return [tensors]
    batches: list[list[torch.Tensor]] = []
    open_batches: dict[tuple[torch.dtype, torch.device], tuple[list[torch.Tensor], int]] = {}
    for tensor in tensors:
        size = tensor.numel() * tensor.element_size()
        kind = (tensor.dtype, tensor.device)
        batch, held = open_batches.get(kind, ([], 0))
        if batch and held + size <= _COALESCED_BYTES:
            batch.append(tensor)
            open_batches[kind] = (batch, held + size)
        else:
            batches.append([tensor])
            open_batches[kind] = (batches[-1], size)
    return batches


def expect_equal(
    what: str, parts: list[torch.Tensor], tensor: torch.Tensor, ranks: int
) -> None:
    """A part for each rank, each with as many elements as the tensor."""
    sizes = [part.numel() for part in parts]
    if sizes != [tensor.numel()] * ranks:
        raise ValueError(
            f"{what}: one tensor of {tensor.numel()} elements for each of {ranks} "
            f"ranks, not {sizes}"
        )


def split_counts(
    tensor: torch.Tensor, splits: list[int] | None, what: str, ranks: int
) -> list[int]:
    """Elements for each rank, of rows for each rank; without those as many for all."""
    rows = tensor.shape[0] if tensor.dim() else 0
    if not splits:
        if rows % ranks:
            raise ValueError(
                f"all_to_all_single: {rows} rows of the {what} do not divide by "
                f"{ranks} ranks; pass {what}_split_sizes"
            )
        splits = [rows // ranks] * ranks
    if len(splits) != ranks or sum(splits) != rows:
        raise ValueError(
            f"all_to_all_single: {what}_split_sizes {splits} for {rows} rows and "
            f"{ranks} ranks"
        )
    per_row = memory.buffer_of(tensor).count // rows if rows else 0
    return [split * per_row for split in splits]
