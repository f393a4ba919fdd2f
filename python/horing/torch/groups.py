"""What a group of this backend offers beyond torch's own calls."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch._C._distributed_c10d import BarrierOptions

if TYPE_CHECKING:
    from horing.torch.process_group import ProcessGroup
    from horing.torch.work import Traffic


def _group(group: dist.ProcessGroup | None, what: str, instead: str) -> ProcessGroup:
    from horing.torch.process_group import ProcessGroup

    chosen: Any = group if group is not None else dist.group.WORLD
    if not isinstance(chosen, ProcessGroup):
        raise ValueError(
            f"horing.torch.{what}: the group's backend is {dist.get_backend(chosen)}, not horing"
            f"{instead}"
        )
    return chosen


def traffic(group: dist.ProcessGroup | None = None) -> Traffic:
    """What this rank's collectives of a group have moved inside its node and between nodes.

    Args:
        group: A group of this backend; None: the default group.

    Returns:
        The group's own account, which goes on: copy what is to be compared later.

    Raises:
        ValueError: The group is another backend's.
    """
    return _group(group, "traffic", "").traffic


def monitored_barrier(
    group: dist.ProcessGroup | None = None,
    timeout: timedelta | None = None,
    wait_all_ranks: bool = False,
) -> None:
    """Waits for all ranks of a group; the error of a timeout names those that did not come.

    torch's own accepts Gloo alone.

    Args:
        group: A group of this backend; None: the default group.
        timeout: The longest wait; None: the group's.
        wait_all_ranks: torch's argument. All missing ranks are named in any case.

    Raises:
        ValueError: The group is another backend's.
        torch.distributed.DistBackendError: Ranks are missing, or the group has failed.
    """
    options = BarrierOptions()
    if timeout is not None:
        options.timeout = timeout
    chosen = _group(
        group, "monitored_barrier", "; for gloo use torch.distributed.monitored_barrier"
    )
    chosen.barrier(options).wait()
