"""Who a group is: its names, ranks and settings, under all names by which torch asks for them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from horing.torch.refused import Refused


class Identity(Refused, dist.ProcessGroup):
    """What torch asks of a group beside its operations. Most of it is not documented by torch:
    docs/design/adr/0022-torch-backend.md."""

    def __init__(self, store: c10d.Store, rank: int, size: int, timeout: timedelta):
        super().__init__(rank, size)  # type: ignore[call-arg]  # the form for Python's groups
        self._store = store
        self._rank, self._world_size = rank, size
        self._timeout = timeout
        self._name = ""
        self._desc = "undefined"
        self._sequence = 0

    def getBackendName(self) -> str:  # noqa: N802  (torch's name)
        return "horing"

    def name(self) -> str:
        return "horing"

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._world_size

    getRank = rank  # noqa: N815
    getSize = size  # noqa: N815

    @property
    def group_name(self) -> Any:
        return self._name

    @property
    def pg_name(self) -> str:
        return self._name

    @property
    def group_desc(self) -> str:
        return self._desc

    def _set_group_name(self, name: str) -> None:
        self._name = name

    def _set_group_desc(self, desc: str) -> None:
        self._desc = desc

    def getGroupName(self) -> str:  # noqa: N802
        return self._name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        self._name = name

    def getGroupDesc(self) -> str:  # noqa: N802
        return self._desc

    def setGroupDesc(self, desc: str) -> None:  # noqa: N802
        self._desc = desc

    def get_group_store(self) -> c10d.Store:
        return self._store

    def __repr__(self) -> str:
        return f"horing.torch.ProcessGroup({self._name!r}, rank {self._rank} of {self._world_size})"

    # --- what torch asks a backend for

    def _get_backend(self, device: torch.device) -> Any:
        return self

    get_backend = _get_backend

    def _get_backend_name(self) -> str:
        return "horing"

    @property
    def _device_types(self) -> list[torch.device]:
        """torch's object collectives take the CPU where it is one of them."""
        with_cuda = torch.version.cuda is not None  # asks no driver
        return [torch.device("cpu"), *([torch.device("cuda")] if with_cuda else [])]

    @property
    def supports_splitting(self) -> bool:
        return True

    @property
    def supports_coalescing(self) -> bool:
        return False

    @property
    def bound_device_id(self) -> torch.device | None:
        return None

    @bound_device_id.setter
    def bound_device_id(self, device: torch.device | None) -> None:
        pass

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout

    _set_default_timeout = set_timeout

    def _set_sequence_number_for_group(self) -> None:
        pass

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def _has_hooks(self) -> bool:
        return False

    def _wait_for_pending_works(self) -> None:
        pass
