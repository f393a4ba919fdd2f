"""Makes the name "horing" known to torch.distributed.

Runs inside `import torch`, so it imports nothing that torch has not loaded, and no library.
"""

from __future__ import annotations

from typing import Any


def register() -> None:
    """Registers the backend for tensors of CPUs and CUDA devices. Later calls do nothing."""
    import torch.distributed as dist

    if not dist.is_available() or "horing" in dist.Backend.backend_list:
        return
    dist.Backend.register_backend("horing", _create, extended_api=True, devices=["cpu", "cuda"])


def _create(options: Any, backend_options: Any) -> Any:
    import torch
    import torch.distributed as dist

    from horing.torch.versions import check_version

    check_version(torch.__version__)
    from horing.torch.job import part_of_job
    from horing.torch.process_group import ProcessGroup

    # The default group is the first one, and is there when the others are made.
    size = dist.get_world_size() if dist.is_initialized() else options.group_size
    ranks = options.global_ranks_in_group or range(options.group_size)
    return ProcessGroup(
        options.store, options.group_rank, options.group_size, options.timeout, global_ranks=ranks,
        part_of=part_of_job(options.store, ranks, size),
    )
