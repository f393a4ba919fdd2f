"""What a group of this backend offers beyond torch's own calls."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch._C._distributed_c10d import BarrierOptions

if TYPE_CHECKING:
    from horing.torch.process_group import ProcessGroup
    from horing.torch.works import Traffic


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
    """What this rank's collectives of the group have moved inside its node and between nodes."""
    return _group(group, "traffic", "").traffic


def monitored_barrier(
    group: dist.ProcessGroup | None = None,
    timeout: timedelta | None = None,
    wait_all_ranks: bool = False,
) -> None:
    """Waits for all ranks of the group; the error of a timeout names those that did not come.

    torch's own accepts Gloo alone. `wait_all_ranks` is its argument: here all missing ranks are
    named in any case.
    """
    options = BarrierOptions()
    if timeout is not None:
        options.timeout = timeout
    chosen = _group(
        group, "monitored_barrier", "; for gloo use torch.distributed.monitored_barrier"
    )
    chosen.barrier(options).wait()
