"""A rank of `tools/bench/gains --cases fsdp`: a small GPT under every strategy of paro.torch, and under FSDP2's hybrid sharding as it
is, in turns over horing. Rank 0 prints one JSON object: seconds by step of the slowest rank, and the links that were measured."""
from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch_job import LAYERS, Gpt, in_turns, loss_of, tokens_of_this_rank

import horing.torch  # noqa: F401
import paro.torch
import paro.torch.planning

PASSES, CONTEXT = (1, 4), 8  # PASSES: micro-batches of a step
COMPUTE, UPDATE = "compute", "update"  # the passes and the optimizer's step of FSDP2 around each rank's own model
HYBRID = "hybrid"  # FSDP2 on two dimensions: it all-reduces in every micro-batch


def step_of(system: str, passes: int, mesh: DeviceMesh, tokens: torch.Tensor) -> Callable[[], None]:
    model = Gpt(CONTEXT)
    if system in (HYBRID, COMPUTE, UPDATE):
        own = init_device_mesh("cpu", (dist.get_world_size(), 1), mesh_dim_names=("ranks", "own"))["own"]
        how = {"mesh": mesh} if system == HYBRID else {"mesh": own, "reshard_after_forward": False}
        for block in model.blocks:
            fully_shard(block, **how)
        fully_shard(model, **how)
        plain = torch.optim.AdamW(model.parameters(), lr=1e-3)

        def passed() -> None:
            for _ in range(passes):
                loss_of(model, tokens).backward()

        def updated() -> None:
            plain.step()
            plain.zero_grad(set_to_none=system != UPDATE)

        if system == UPDATE:
            passed()
        return {HYBRID: lambda: (passed(), updated()), COMPUTE: passed, UPDATE: updated}[system]
    for block in model.blocks:
        paro.torch.fully_shard(block, mesh=mesh, strategy=system)
    paro.torch.fully_shard(model, mesh=mesh, strategy=system)
    optimizer = paro.torch.Optimizer(torch.optim.AdamW, model, lr=1e-3)

    def step() -> None:
        for index in range(passes):
            with paro.torch.microbatch(model, last=index + 1 == passes):
                loss_of(model, tokens).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--group-size", type=int, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("horing")
    mesh = paro.torch.init_mesh("cpu", options.group_size)
    tokens = tokens_of_this_rank(CONTEXT)
    systems = [COMPUTE, UPDATE, HYBRID, *paro.torch.STRATEGIES]
    steps = {f"{passes} {system}": step_of(system, passes, mesh, tokens) for passes in PASSES for system in systems}
    links = paro.torch.measure_links(mesh)
    seconds = in_turns(steps, options.rounds)
    if dist.get_rank() == 0:
        parameters = sum(each.numel() for each in Gpt(CONTEXT).parameters())
        print(json.dumps({"parameters": parameters, "layers": LAYERS + 1, "ranks": dist.get_world_size(), "links": asdict(links),
                          "plan_request": paro.torch.planning.request_of(links, "cpu"),
                          "passes": PASSES, "torch": torch.__version__, "seconds": seconds}))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
