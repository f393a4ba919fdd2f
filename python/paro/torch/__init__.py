"""PaRO on FSDP2: parameters, gradients and optimizer state each at a scope of its own.

    from paro.torch import Optimizer, fully_shard, microbatch
    fully_shard(model, mesh=mesh, strategy="IIG")
    optimizer = Optimizer(torch.optim.AdamW, model, lr=1e-4)

Each name is documented where it is defined; docs/guide/fsdp2.md shows how they go together.
"""

from __future__ import annotations

from paro.torch import fsdp_private as fsdp_private  # first: it refuses releases of torch for all the others
from paro.torch.agreement import MismatchError
from paro.torch.backward import microbatch
from paro.torch.clip_grad import clip_grad_norm_
from paro.torch.grad_scaler import GradScaler
from paro.torch.introspection import Memory, Traffic, explain, memory, traffic_of_a_step
from paro.torch.meshes import init_mesh
from paro.torch.optimizer import Optimizer
from paro.torch.planning import choose_strategy, measure_links
from paro.torch.sharding import fully_shard
from paro.torch.state_dict import get_state_dict, set_state_dict
from paro.torch.strategies import STRATEGIES, Scope, Strategy

__all__ = [
    "STRATEGIES",
    "GradScaler",
    "Memory",
    "MismatchError",
    "Optimizer",
    "Scope",
    "Strategy",
    "Traffic",
    "choose_strategy",
    "clip_grad_norm_",
    "explain",
    "fully_shard",
    "get_state_dict",
    "init_mesh",
    "measure_links",
    "memory",
    "microbatch",
    "set_state_dict",
    "traffic_of_a_step",
]
