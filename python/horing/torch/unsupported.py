"""What torch's class for groups has and this backend does not: refused by name, with what to take instead.

Without this torch's own methods answer, which look for a backend in C++ that is not there, or
accept a hook and never call it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_HOOKS = "HORING_TRACE shows what each call did, horing.torch.traffic() how much was moved"
_NEW_GROUP = "make a group of the ranks that go on, with torch.distributed.new_group or anew"
_WITH_NCCL = "use a group with nccl"

INSTEAD = {
    "register_pre_hook": _HOOKS,
    "unregister_pre_hook": _HOOKS,
    "register_post_hook": _HOOKS,
    "unregister_post_hook": _HOOKS,
    "register_abort_hook": "call it before abort()",
    "unregister_abort_hook": "call it before abort()",
    "_register_on_completion_hook": _HOOKS,
    "reconfigure": _NEW_GROUP,
    "get_reconfigure_handle": _NEW_GROUP,
    "merge_remote_group": _NEW_GROUP,
    "new_window": _WITH_NCCL,
    "_add_ephemeral_timeout": "pass the call's own timeout",
    "monitored_barrier": "use horing.torch.monitored_barrier",
    "_register_backend": "make a group of its own for another backend, with torch.distributed.new_group",
    "_set_default_backend": "make a group of its own for another backend, with torch.distributed.new_group",
}


def _refusal(name: str, instead: str) -> Callable[..., Any]:
    def refused(*arguments: Any, **named: Any) -> Any:
        raise NotImplementedError(f"horing: groups of this backend have no {name}; {instead}")

    return refused


class Refused:
    """Answers, before torch's class does, for what this backend does not have."""

    supports_window = False
    supports_reconfigure = False


for _name, _instead in INSTEAD.items():
    setattr(Refused, _name, _refusal(_name, _instead))
