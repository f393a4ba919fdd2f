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
    """A torch Store as horing takes it. Keys of one group: the store is already the group's.

    Args:
        store: The group's store, used by the thread that makes a communicator.
    """

    def __init__(self, store: c10d.Store):
        self._store = store

    def set(self, key: str, value: bytes) -> None:
        """Writes a value.

        Args:
            key: Its name within the group.
            value: What the other ranks read.
        """
        self._store.set(key, value)  # type: ignore[arg-type]  # it takes bytes as well

    def wait(self, key: str, timeout: float) -> None:
        """Waits until a key is there.

        Asks again and again: a wait of torch's stores that ends without the key logs warnings, and
        this one is called in slices.

        Args:
            key: Its name within the group.
            timeout: The longest wait, in seconds.

        Raises:
            TimeoutError: Nobody has set the key in that time.
        """
        until = time.monotonic() + timeout
        pause = _FIRST_PAUSE_S
        while not self._store.check([key]):
            if time.monotonic() + pause > until:
                raise TimeoutError(f"nobody has set {key} in the group's store")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def get(self, key: str) -> bytes:
        """Reads the value of a key that is there.

        Args:
            key: Its name within the group.

        Returns:
            What set() was given.
        """
        return bytes(self._store.get(key))


def reduce_op(argument: Any) -> tuple[ReduceOp, float]:
    """The reduction of horing for one of torch.

    Args:
        argument: A `dist.ReduceOp`, or one of its kinds.

    Returns:
        The operation, and the factor of PREMUL_SUM (1.0 for all others).

    Raises:
        ValueError: horing has no such reduction.
    """
    ours = _OPS.get(getattr(argument, "op", argument))
    if ours is None:
        raise ValueError(f"horing has no reduction {argument}")
    scale = 1.0
    if ours == ReduceOp.PREMUL_SUM:
        factor = argument.__getstate__()[1]
        scale = float(factor.item() if isinstance(factor, torch.Tensor) else factor)
    return ours, scale


def one_of(tensors: Any, what: str) -> torch.Tensor:
    """The only tensor of a list of one.

    Args:
        tensors: A tensor, or a list of one.
        what: The call, for errors.

    Returns:
        The tensor, detached, of any shape.

    Raises:
        ValueError: It is another number of tensors, or one that the backend does not move.
    """
    if isinstance(tensors, torch.Tensor):
        return memory.check(tensors, what)
    if len(tensors) != 1:
        raise ValueError(f"{what}: one tensor per rank, not {len(tensors)}")
    return memory.check(tensors[0], what)


def list_of(tensors: Any, what: str) -> list[torch.Tensor]:
    """The tensors of a list, or of a list of one list.

    Args:
        tensors: One tensor for each rank, of any shapes.
        what: The call, for errors.

    Returns:
        The tensors, detached, of one type on one device; at least one.

    Raises:
        ValueError: The list is empty or nested further, or types or devices differ.
    """
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


def options_of(argument: Any, kind: type, timeout: timedelta | None = None, op: Any = None) -> Any:
    """The options of a call. Some callers of torch's interface pass the fields instead.

    Args:
        argument: Options, a reduction, the root's rank, or None.
        kind: torch's class for the call's options.
        timeout: The call's deadline, where it was given as a field.
        op: The reduction, where it was given as a field beside the root's rank.

    Returns:
        The given options, or new ones with what was given.
    """
    reduction = op
    if isinstance(argument, (dist.ReduceOp, dist.ReduceOp.RedOpType)):
        reduction = argument
    elif argument is not None and not isinstance(argument, int):
        return argument
    options = kind()
    if isinstance(argument, int):
        options.rootRank = argument
    if reduction is not None:
        options.reduceOp = reduction
    if timeout is not None:
        options.timeout = timeout
    return options


def batches_of(tensors: list[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Small tensors of one type and device together, large ones alone; the same on every rank.

    Args:
        tensors: What one coalesced call has.

    Returns:
        The tensors in batches; all of a batch go through one operation.
    """
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
    """Checks that there is a part for each rank, each with as many elements as the tensor.

    Args:
        what: The call, for errors.
        parts: The list that was given.
        tensor: The tensor on the other side of the call.
        ranks: Ranks of the group.

    Raises:
        ValueError: Their number or a size is another.
    """
    sizes = [part.numel() for part in parts]
    if sizes != [tensor.numel()] * ranks:
        raise ValueError(
            f"{what}: one tensor of {tensor.numel()} elements for each of {ranks} "
            f"ranks, not {sizes}"
        )


def split_counts(
    tensor: torch.Tensor, splits: list[int] | None, what: str, ranks: int
) -> list[int]:
    """Elements for each rank, from rows for each rank.

    Args:
        tensor: What is split along its first dimension.
        splits: Rows for each rank; None or empty: as many for all.
        what: "input" or "output", for errors.
        ranks: Ranks of the group.

    Returns:
        As many counts as ranks; their sum is the tensor's elements.

    Raises:
        ValueError: The rows do not divide, or the splits are not the tensor's rows.
    """
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
