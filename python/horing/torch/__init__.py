"""horing as a backend of torch.distributed.

    import horing.torch
    torch.distributed.init_process_group("horing")

Registers the backend, and loads libhoring when the first group is made.
"""

from __future__ import annotations

from horing.torch.groups import monitored_barrier, traffic
from horing.torch.registration import register

register()

__all__ = ["monitored_barrier", "register", "traffic"]
