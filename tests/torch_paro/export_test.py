"""What `paro plan --export` writes runs: its processes hold the shards that were planned, and train as one does."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

import horing.torch
import paro.torch
from models import Model, loss_of, micro_batches, trained_alone
from paro._library import plan
from paro.torch.fsdp_private import parameter_groups
from ranks import run_ranks
from training import LR, STEPS, adamw, relative, whole

CLOSE = 2e-5
GROUPS, GROUP_SIZE = 2, 2
PARTS = 3
WIDTH, LAYERS, FP32 = 64, 4, 4
ON_FSDP2 = ["NNN", "NNI", "NNG", "NII", "NGG", "INI", "III", "GNG", "GGG"]
DIVISOR = {"N": 1, "I": GROUP_SIZE, "G": GROUPS * GROUP_SIZE}


def answer(target: str, strategy: str, **options: Any) -> dict[str, Any]:
    request = {
        "units": [{"parameters": 1000, "element_bytes": 4, "count": 3}], "nodes": GROUPS, "ranks_per_node": GROUP_SIZE,
        "nics": GROUP_SIZE, "intra": "10GB", "inter": "1GB", "accumulation": PARTS, "export": target,
        "strategy": strategy,
    }  # fmt: skip
    return plan({**request, **options})


def exported(target: str, strategy: str, **options: Any) -> str:
    program: str = answer(target, strategy, **options)["export"]
    return program


def module_of(program: str, folder: str) -> Any:
    path = Path(folder) / "exported.py"
    path.write_text(program, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("exported", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def batch_loss(model: Any, batch: Any) -> torch.Tensor:
    return loss_of(model, *batch, 1)


def elements_of(parameter: Any) -> tuple[int, int]:
    """That this rank holds, padding aside, and that there are."""
    local = parameter.to_local() if isinstance(parameter, DTensor) else parameter
    return local.numel(), parameter.numel()


def gathered_bytes(model: Any) -> int:
    """Of parameters that stay gathered."""
    units = (module for module in model.modules() if isinstance(module, FSDPModule))
    groups = (group for unit in units for group in parameter_groups(unit))
    return sum(p._unsharded_param.nbytes for group in groups if group.is_unsharded for p in group.fsdp_params)


def trained(program: str) -> dict[str, Any]:
    """The worst difference from one process; elements of this rank's shards; what is gathered between micro-batches."""
    reference = Model()
    losses, _, parameters = trained_alone(reference, STEPS, adamw, None)
    with tempfile.TemporaryDirectory() as folder:
        exported = module_of(program, folder)
    model = exported.shard(reference, [*reference.blocks], "cpu")
    optimizer = exported.make_optimizer(model, lr=LR)
    between: list[int] = []
    worst = 0.0

    def loss(model: Any, batch: Any) -> torch.Tensor:
        between.append(gathered_bytes(model))
        return batch_loss(model, batch)

    for step in range(STEPS):
        batches = micro_batches(step, dist.get_rank(), dist.get_world_size(), PARTS)
        total = exported.train_step(model, optimizer, batches, loss)
        dist.all_reduce(total)
        worst = max(worst, abs(total.item() / dist.get_world_size() - losses[step]) / losses[step])
    plain = getattr(model, "module", model)
    for name, parameter in plain.named_parameters():
        worst = max(worst, relative(whole(parameter), parameters[name]))
    held = [elements_of(parameter) for parameter in plain.parameters()]
    return {"worst": worst, "held": held, "between": between}


def moved(program: str) -> tuple[int, int]:
    """Bytes that this rank sends in a step: between nodes, and inside its own."""
    torch.manual_seed(5)
    layers = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)))
    with tempfile.TemporaryDirectory() as folder:
        exported = module_of(program, folder)
    model = exported.shard(layers, [*layers], "cpu")
    optimizer = exported.make_optimizer(model, lr=LR)
    groups = dist.distributed_c10d._world.pg_map

    def sent() -> tuple[int, int]:
        counted = [horing.torch.traffic(group) for group in groups]
        return sum(each.inter_sent_bytes for each in counted), sum(each.intra_sent_bytes for each in counted)

    def step() -> None:
        exported.train_step(model, optimizer, [torch.ones(3, WIDTH)] * PARTS, lambda model, rows: model(rows).sum())

    step()  # connections, and what is agreed once
    before = sent()
    step()
    after = sent()
    return after[0] - before[0], after[1] - before[1]


class Exported(unittest.TestCase):
    def check(self, target: str, strategies: list[str]) -> None:
        def run() -> Any:
            return {name: trained(programs[name]) for name in strategies}

        programs = {name: exported(target, name) for name in strategies}
        by_rank = run_ranks([GROUP_SIZE] * GROUPS, run, backend="gloo")
        for name in strategies:
            shards = DIVISOR[paro.torch.STRATEGIES[name].shards.value]
            stays = name[0] == "N" and shards > 1
            with self.subTest(f"{target} {name}"):
                for found in (by_name[name] for by_name in by_rank):
                    self.assertLess(found["worst"], CLOSE)
                    # From the second micro-batch of a step on.
                    self.assertEqual([size > 0 for size in found["between"][:PARTS]], [False] + [stays] * (PARTS - 1))
                for parameter in zip(*(by_name[name]["held"] for by_name in by_rank), strict=True):
                    whole_size = parameter[0][1]
                    copies = GROUPS * GROUP_SIZE // shards
                    self.assertEqual(sum(here for here, _ in parameter), copies * whole_size)
                    self.assertTrue(shards == 1 or max(here for here, _ in parameter) < whole_size)

    def test_programs_on_fsdp2_train_as_one_process_does(self) -> None:
        self.check("fsdp2", ON_FSDP2)

    def test_programs_with_paro_torch_train_as_one_process_does(self) -> None:
        self.check("paro.torch", ["IIG", "NIG", "III", "GGG"])

    def test_bytes_between_and_inside_nodes_are_those_that_were_planned(self) -> None:
        units = [{"parameters": WIDTH * WIDTH, "element_bytes": FP32, "count": LAYERS}]
        cases = [("fsdp2", name) for name in ON_FSDP2] + [("paro.torch", "IIG")]

        def run() -> Any:
            return [moved(program) for program in programs]

        answers = [answer(*each, units=units) for each in cases]
        programs = [each["export"] for each in answers]
        with mock.patch.dict(os.environ, HORING_RAILS=str(GROUP_SIZE)):
            by_rank = run_ranks([GROUP_SIZE] * GROUPS, run)
        for index, (target, name) in enumerate(cases):
            planned = next(each["sent_bytes"] for each in answers[index]["strategies"] if each["name"] == name)
            for column, where in enumerate(("inter", "intra")):
                with self.subTest(f"{target} {name} {where}"):
                    sent = sum(moved[index][column] for moved in by_rank)
                    compared = len(by_rank) * 128  # what paro.torch's ranks compare before a step takes less
                    self.assertAlmostEqual(sent / len(by_rank), planned[where], delta=compared + planned[where] / 500)

    def test_gathers_ahead_and_narrow_types(self) -> None:
        narrow = [{"parameters": 1000, "element_bytes": 2, "count": 3}]

        def run() -> Any:
            return [trained(program)["worst"] for program in programs]

        programs = [exported(target, name, units=narrow, prefetch=2)
                    for target, name in (("fsdp2", "III"), ("paro.torch", "IIG"))]  # fmt: skip
        for found in run_ranks([GROUP_SIZE] * GROUPS, run, backend="gloo"):
            for worst in found:
                self.assertLess(worst, 0.1)  # bfloat16 has 8 bits

    def test_a_job_of_another_size_is_refused(self) -> None:
        def run() -> str:
            try:
                trained(program)
            except RuntimeError as error:
                return str(error)
            return ""

        program = exported("fsdp2", "III")
        for message in run_ranks([2], run, backend="gloo"):
            self.assertEqual(message, "planned for 4 ranks, this job has 2")

    def test_what_fsdp2_cannot_have_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "export fsdp2: FSDP2 alone cannot have IIG; the nearest that it can"):
            exported("fsdp2", "IIG")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
