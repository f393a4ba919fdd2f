"""What programs do with paro.torch: tied and frozen parameters, LoRA, activation checkpoints, compiled
blocks, the meta device, evaluation, schedulers, groups of parameters, loss scaling; and what is refused."""

from __future__ import annotations

import re
import subprocess
import sys
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.utils.checkpoint import checkpoint

import paro.torch
from models import CLASSES, WIDTH, Model, freeze, loss_of, micro_batches, trained_alone
from ranks import SECONDS, RanksFailed, run_ranks
from training import LR, STEPS, adamw, relative, sharded, step_of, whole

STRATEGIES = ["IIG", "NIG", "IGG", "GGG", "III"]
CLOSE = 2e-5
EXAMPLE = str(Path(__file__).resolve().parents[2] / "examples" / "torch" / "train.py")


class Checkpointed(Model):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        logits: torch.Tensor = self.head(self.norm(x))
        return logits


class Tied(nn.Module):
    """Tokens in, tokens out, through one matrix."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(11)
        self.embedding = nn.Embedding(7, WIDTH)
        self.blocks = nn.ModuleList([nn.Linear(WIDTH, WIDTH)])
        self.head = nn.Linear(WIDTH, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(x[:, 0].abs().mul(3).long() % 7)
        logits: torch.Tensor = self.head(torch.tanh(self.blocks[0](hidden)))
        return logits[:, :CLASSES]


class Lora(nn.Module):
    """A frozen layer with a trainable product of two thin matrices beside it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(13)
        self.base = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.down = nn.Linear(WIDTH, 3, bias=False)
        self.up = nn.Linear(3, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.base(x) + self.up(self.down(x))
        return out


class LoraModel(Model):
    def __init__(self) -> None:
        super().__init__()
        self.requires_grad_(False)
        self.blocks = nn.ModuleList(Lora() for _ in range(2))
        self.head.requires_grad_(True)


def worst_of(
    make: Callable[[], Any], strategy: str, prepare: Callable[[Any], None] = lambda _: None, parts: int = 1
) -> float:
    mesh = paro.torch.init_mesh("cpu", 2)
    model = make()
    losses, _, parameters = trained_alone(model, STEPS, adamw, None)
    prepare(model)
    sharded(model, strategy, mesh)
    optimizer = paro.torch.Optimizer(torch.optim.AdamW, model, lr=LR)
    worst = 0.0
    for step in range(STEPS):
        loss, _ = step_of(model, optimizer, step, parts)
        worst = max(worst, abs(loss - losses[step]) / losses[step])
        with torch.no_grad():  # evaluation between steps
            model.eval()
            loss_of(model, *micro_batches(step, 0, 1, 1)[0], 1)
            model.train()
    for name, parameter in model.named_parameters():
        worst = max(worst, relative(whole(parameter), parameters[name]))
    return worst


class Models(unittest.TestCase):
    def assert_close(self, make: Callable[[], Any], **options: Any) -> None:
        def run() -> Any:
            return {name: worst_of(make, name, **options) for name in STRATEGIES}

        for by_name in run_ranks([2, 2], run, backend="gloo"):
            for name, worst in by_name.items():
                self.assertLess(worst, CLOSE, name)

    def test_activation_checkpoints_and_evaluation_between_steps(self) -> None:
        self.assert_close(Checkpointed, parts=3)

    def test_two_modules_in_a_list_are_one_unit(self) -> None:
        def run() -> Any:
            mesh = paro.torch.init_mesh("cpu", 2)
            found = {}
            for name in STRATEGIES:
                model = Model()
                _, _, parameters = trained_alone(model, STEPS, adamw, None)
                paro.torch.fully_shard([model.norm, model.head], mesh=mesh, strategy=name)
                sharded(model, name, mesh)
                optimizer = paro.torch.Optimizer(torch.optim.AdamW, model, lr=LR)
                for step in range(STEPS):
                    step_of(model, optimizer, step, 3)
                found[name] = max(relative(whole(p), parameters[n]) for n, p in model.named_parameters())
            return found

        for found in run_ranks([2, 2], run, backend="gloo"):
            for name, worst in found.items():
                self.assertLess(worst, CLOSE, name)

    def test_tied_embeddings_are_one_parameter(self) -> None:
        self.assert_close(Tied, parts=3)

    def test_a_lora_trains_beside_frozen_layers(self) -> None:
        self.assert_close(LoraModel, parts=3)

    def test_blocks_that_torch_compiles(self) -> None:
        def compile_blocks(model: Any) -> None:
            for block in model.blocks:
                block.compile(backend="aot_eager")

        self.assert_close(Model, prepare=compile_blocks)

    def test_a_model_that_begins_on_the_meta_device(self) -> None:
        def run() -> Any:
            mesh = paro.torch.init_mesh("cpu", 2)
            with torch.device("meta"):
                model = Model()
            sharded(model, "IIG", mesh)
            model.to_empty(device="cpu")
            for parameter in model.parameters():
                nn.init.constant_(parameter, 0.5)
            optimizer = paro.torch.Optimizer(torch.optim.AdamW, model, lr=LR)
            step_of(model, optimizer, 0, 1)
            return [bool(whole(p).isfinite().all() and (whole(p) != 0.5).any()) for p in model.parameters()]

        for changed in run_ranks([2, 2], run, backend="gloo"):
            self.assertTrue(any(changed))

    def test_what_zero_grad_drops_is_in_no_later_step(self) -> None:
        def run() -> Any:
            mesh = paro.torch.init_mesh("cpu", 2)
            _, _, parameters = trained_alone(Model(), 2, adamw, None)
            found = {}
            for name in paro.torch.STRATEGIES:
                model = sharded(Model(), name, mesh)
                optimizer = paro.torch.Optimizer(torch.optim.AdamW, model, lr=LR)
                for last in (True, False):  # a step that is given up at its end, and one midway
                    with paro.torch.microbatch(model, last=last):
                        loss_of(model, *micro_batches(7, 0, 1, 1)[0], 1).backward()
                    (optimizer if last else model).zero_grad()
                step_of(model, optimizer, 0, 3)
                try:
                    with paro.torch.microbatch(model, last=True):
                        loss_of(model, *micro_batches(7, 0, 1, 1)[0], 1)
                        raise KeyError("the data set has an end")
                except KeyError:
                    optimizer.zero_grad()
                step_of(model, optimizer, 1, 3)
                found[name] = max(relative(whole(p), parameters[n]) for n, p in model.named_parameters())
            return found

        for found in run_ranks([2, 2], run, backend="gloo"):
            for name, worst in found.items():
                self.assertLess(worst, CLOSE, name)

    def test_groups_whose_passes_use_other_parameters_end_together(self) -> None:
        def run() -> Any:
            mesh = paro.torch.init_mesh("cpu", 2)
            torch.manual_seed(3)
            model = nn.ModuleList(nn.Linear(4, 4, bias=False) for _ in range(2))
            for layer in model:
                paro.torch.fully_shard(layer, mesh=mesh, strategy="IIG")
            optimizer = paro.torch.Optimizer(torch.optim.SGD, model, lr=1.0)
            before = [whole(p).detach().clone() for p in model.parameters()]
            rows = torch.ones(1, 4)
            # One group: both layers in each of two passes; the other: one layer in each.
            passes = ((0, 1), (0, 1)) if mesh.get_local_rank(0) == 0 else ((0,), (1,))
            for used in passes:
                sum(model[index](rows).sum() for index in used).backward()
            optimizer.step()
            return [(b - whole(p)).unique().tolist() for b, p in zip(before, model.parameters(), strict=True)]

        for gradients in run_ranks([2, 2], run, backend="gloo"):
            self.assertEqual(gradients, [[1.5], [1.5]])  # of 2, 2, 1 and 1

    def test_what_torch_s_own_calls_change_is_what_trains(self) -> None:
        def run(strategy: str) -> Any:
            mesh = paro.torch.init_mesh("cpu", 2)
            model, reference = sharded(Model(), strategy, mesh), Model()
            ours = paro.torch.Optimizer(torch.optim.AdamW, model, list(model.parameters())[:2], lr=LR)
            ours.add_param_group({"params": list(model.parameters())[2:], "lr": 2 * LR})
            own = list(reference.parameters())
            theirs = torch.optim.AdamW([{"params": own[:2]}, {"params": own[2:], "lr": 2 * LR}], lr=LR)
            generator = torch.Generator().manual_seed(5)
            loaded = {name: torch.randn(p.shape, generator=generator) for name, p in reference.named_parameters()}
            reference.load_state_dict(loaded)
            options = StateDictOptions(full_state_dict=True)
            set_model_state_dict(model, loaded, options=options)
            for step in range(STEPS):
                step_of(model, ours, step, 1)
                loss_of(reference, *micro_batches(step, 0, 1, 1)[0], 1).backward()
                theirs.step()
                theirs.zero_grad()
                ours.load_state_dict(ours.state_dict())
            pairs = zip(model.parameters(), own, strict=True)
            return max(relative(whole(p), r.detach()) for p, r in pairs)

        for strategy in ("IIG", "GGG"):
            with self.subTest(strategy):
                self.assertLess(max(run_ranks([2, 2], run, strategy, backend="gloo")), CLOSE)

    def test_passes_without_microbatch_are_summed_as_torch_does(self) -> None:
        def run() -> Any:
            mesh = paro.torch.init_mesh("cpu", 2)
            model = Model()
            _, _, parameters = trained_alone(model, 2, adamw, None)
            sharded(model, "IIG", mesh)
            optimizer = paro.torch.Optimizer(torch.optim.AdamW, model, lr=LR)
            for step in range(2):
                for x, y in micro_batches(step, dist.get_rank(), dist.get_world_size(), 3):
                    loss_of(model, x, y, 3).backward()
                optimizer.step()
                optimizer.zero_grad()
            return max(relative(whole(p), parameters[n]) for n, p in model.named_parameters())

        self.assertLess(max(run_ranks([2, 2], run, backend="gloo")), CLOSE)

    def test_a_parameter_that_only_one_group_uses_is_updated_on_all_ranks(self) -> None:
        class Branch(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                torch.manual_seed(3)
                self.always = nn.Linear(8, 8, bias=False)
                self.sometimes = nn.Linear(8, 8, bias=False)

            def forward(self, x: torch.Tensor, both: bool) -> torch.Tensor:
                out: torch.Tensor = self.always(x)
                return out + self.sometimes(x) if both else out

        def run() -> Any:
            mesh = paro.torch.init_mesh("cpu", 2)
            model: Any = paro.torch.fully_shard(Branch(), mesh=mesh, strategy="IIG")
            optimizer = paro.torch.Optimizer(torch.optim.SGD, model, lr=0.1)
            before = whole(model.sometimes.weight).detach().clone()
            model(torch.ones(2, 8), mesh.get_local_rank(0) == 0).sum().backward()
            optimizer.step()
            # The gradient of each weight is 2 on the ranks of one group, 0 on the others': 1 on average.
            return (before - whole(model.sometimes.weight)).tolist()

        for difference in run_ranks([2, 2], run, backend="gloo"):
            self.assertTrue(torch.allclose(torch.tensor(difference), torch.full((8, 8), 0.1), atol=1e-6))


class Optimizers(unittest.TestCase):
    def test_groups_of_parameters_and_a_scheduler(self) -> None:
        def groups(model: nn.Module) -> list[dict[str, Any]]:
            decayed = [p for p in model.parameters() if p.ndim > 1]
            others = [p for p in model.parameters() if p.ndim <= 1]
            return [{"params": decayed, "weight_decay": 0.3}, {"params": others, "lr": 3e-2}]

        def run() -> Any:
            mesh = paro.torch.init_mesh("cpu", 2)
            model, reference = Model(), Model()
            sharded(model, "IIG", mesh)
            ours = paro.torch.Optimizer(torch.optim.AdamW, model, groups(model), lr=LR)
            theirs = torch.optim.AdamW(groups(reference), lr=LR)
            schedulers = [torch.optim.lr_scheduler.StepLR(each, 1, 0.5) for each in (ours, theirs)]
            for step in range(STEPS):
                step_of(model, ours, step, 1)
                loss_of(reference, *micro_batches(step, 0, 1, 1)[0], 1).backward()
                theirs.step()
                theirs.zero_grad()
                for scheduler in schedulers:
                    scheduler.step()
            pairs = zip(model.parameters(), reference.parameters(), strict=True)
            return max(relative(whole(p), r.detach()) for p, r in pairs)

        self.assertLess(max(run_ranks([2, 2], run, backend="gloo")), CLOSE)

    def test_every_elementwise_optimizer_in_its_forms(self) -> None:
        kinds = [
            (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "foreach": True}),
            (torch.optim.AdamW, {"lr": LR, "fused": True}),
            (torch.optim.Adam, {"lr": LR, "foreach": False, "amsgrad": True}),
            (torch.optim.RMSprop, {"lr": LR}),
            (torch.optim.Adagrad, {"lr": LR}),
            (torch.optim.NAdam, {"lr": LR}),
        ]

        def run() -> Any:
            mesh = paro.torch.init_mesh("cpu", 2)
            found = {}
            for kind, options in kinds:
                model = Model()
                _, _, parameters = trained_alone(model, STEPS, lambda p: kind(p, **options), None)
                sharded(model, "IIG", mesh)
                optimizer = paro.torch.Optimizer(kind, model, **options)
                for step in range(STEPS):
                    step_of(model, optimizer, step, 1)
                found[kind.__name__] = max(
                    relative(whole(p), parameters[name]) for name, p in model.named_parameters()
                )
            return found

        for found in run_ranks([2, 2], run, backend="gloo"):
            for name, worst in found.items():
                self.assertLess(worst, 10 * CLOSE, name)

    def test_an_overflow_on_one_rank_leaves_the_step_out_on_all(self) -> None:
        def run(strategy: str) -> Any:
            mesh = paro.torch.init_mesh("cpu", 2)
            model = sharded(Model(), strategy, mesh)
            optimizer = paro.torch.Optimizer(torch.optim.AdamW, model, lr=LR)
            scaler = paro.torch.GradScaler("cpu", init_scale=1024.0)
            scales, changed = [], []
            for step in range(3):
                x, y = micro_batches(step, dist.get_rank(), dist.get_world_size(), 1)[0]
                loss = scaler.scale(loss_of(model, x, y, 1))
                if step == 1 and dist.get_rank() == 3:
                    loss = loss * float("inf")
                before = [whole(p).detach().clone() for p in model.parameters()]
                with paro.torch.microbatch(model, last=True):
                    loss.backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                scales.append(scaler.get_scale())
                pairs = zip(before, model.parameters(), strict=True)
                changed.append(any(not torch.equal(b, whole(p)) for b, p in pairs))
            return scales, changed

        for strategy in ("IIG", "III", "GGG", "NNN"):
            with self.subTest(strategy):
                for result in run_ranks([2, 2], run, strategy, backend="gloo"):
                    self.assertEqual(result, ([1024.0, 512.0, 512.0], [True, False, True]))

    def test_the_norm_counts_shards_of_tensor_parallelism(self) -> None:
        def run(strategy: str) -> Any:
            mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("inter", "intra", "tp"))
            model, reference = Model(), Model()
            for block in model.blocks:
                parallelize_module(block.first, mesh["tp"], ColwiseParallel(use_local_output=True))
                # The second layer takes all columns again.
                block.first.register_forward_hook(lambda _m, _i, out: _all_columns(out, mesh["tp"]))
            sharded(model, strategy, mesh["inter", "intra"])
            optimizer = paro.torch.Optimizer(torch.optim.AdamW, model, lr=LR)
            data_rank = dist.get_rank() // 2
            x, y = micro_batches(0, data_rank, 4, 1)[0]
            loss_of(model, x, y, 1).backward()
            norm = paro.torch.clip_grad_norm_(model, 0.1)
            optimizer.step()
            loss_of(reference, *micro_batches(0, 0, 1, 1)[0], 1).backward()
            alone = nn.utils.clip_grad_norm_(reference.parameters(), 0.1)
            return abs(norm - alone).item() / alone.item()

        for strategy in ("IIG", "III", "GGG"):
            with self.subTest(strategy):
                self.assertLess(max(run_ranks([4, 4], run, strategy, backend="gloo")), CLOSE)


    def test_an_overflow_in_one_shard_of_tensor_parallelism_counts_on_all(self) -> None:
        def run() -> float:
            mesh = init_device_mesh("cpu", (2, 1, 2), mesh_dim_names=("inter", "intra", "tp"))
            model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
            parallelize_module(model[0], mesh["tp"], ColwiseParallel(output_layouts=Replicate()))
            paro.torch.fully_shard(model, mesh=mesh["inter", "intra"], strategy="GGG")
            optimizer = paro.torch.Optimizer(torch.optim.SGD, model, lr=0.1)
            scaler = paro.torch.GradScaler("cpu", init_scale=1024.0)
            scaler.scale(model(torch.ones(2, 4)).sum()).backward()
            if dist.get_rank() == 1:
                gradient: Any = model[0].weight.grad
                gradient.to_local().fill_(float("inf"))
            scaler.step(optimizer)
            scaler.update()
            return scaler.get_scale()

        self.assertEqual(run_ranks([2, 2], run, backend="gloo"), [512.0] * 4)


class _AllColumns(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, local: torch.Tensor, group: Any) -> torch.Tensor:
        ctx.group = group
        parts = [torch.empty_like(local) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, local.contiguous(), group=group)
        return torch.cat(parts, dim=-1)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:  # type: ignore[override]
        return gradient.chunk(dist.get_world_size(ctx.group), dim=-1)[dist.get_rank(ctx.group)], None


def _all_columns(local: torch.Tensor, mesh: Any) -> torch.Tensor:
    out: torch.Tensor = _AllColumns.apply(local, mesh.get_group())  # type: ignore[no-untyped-call]
    return out


class Refused(unittest.TestCase):
    def assert_refused(self, body: Callable[[], Any], *texts: str) -> None:
        """On every rank, with all the texts."""
        with self.assertRaises(RanksFailed) as raised:
            run_ranks([2, 2], body, backend="gloo")
        by_rank = str(raised.exception).split("\nrank ")
        self.assertEqual(len(by_rank), 4, raised.exception)
        for each in by_rank:
            for text in texts:
                self.assertIn(text, each)

    def test_ranks_with_different_strategies(self) -> None:
        def run() -> None:
            mesh = paro.torch.init_mesh("cpu", 2)
            sharded(Model(), "IIG" if dist.get_rank() == 2 else "NNN", mesh)

        self.assert_refused(run, "fully_shard: ranks have different values of strategy", "IIG on rank 2")

    def test_ranks_with_different_group_sizes(self) -> None:
        def run() -> None:
            paro.torch.init_mesh("cpu", 1 if dist.get_rank() == 3 else 2)

        self.assert_refused(run, "init_mesh: ranks have different values of group size", "1 on rank 3")

    def test_ranks_with_different_units(self) -> None:
        def run() -> None:
            mesh = paro.torch.init_mesh("cpu", 2)
            model = Model()
            block = model.blocks[1 if dist.get_rank() == 1 else 0]
            paro.torch.fully_shard(block, mesh=mesh, strategy="IIG")
            paro.torch.fully_shard(model, mesh=mesh, strategy="IIG")
            paro.torch.Optimizer(torch.optim.AdamW, model)

        self.assert_refused(run, "paro.torch.Optimizer: ranks have different values of units", "on rank 1")

    def test_a_unit_that_one_rank_leaves_out(self) -> None:
        def run() -> None:
            mesh = paro.torch.init_mesh("cpu", 2)
            model = Model()
            if dist.get_rank() != 1:
                paro.torch.fully_shard(model.blocks[0], mesh=mesh, strategy="IIG")
            paro.torch.fully_shard(model, mesh=mesh, strategy="IIG")

        self.assert_refused(run, "fully_shard: ranks have different values of modules", "['Model'] on rank 1")

    def test_an_optimizer_that_looks_at_whole_matrices_on_one_rank(self) -> None:
        def run() -> None:
            model = sharded(Model(), "IIG", paro.torch.init_mesh("cpu", 2))
            kind: Any = torch.optim.Muon if dist.get_rank() == 1 else torch.optim.AdamW
            paro.torch.Optimizer(kind, model, lr=LR)

        self.assert_refused(run, "Muon looks at more of a tensor than one element", "use AdamW")

    def test_meshes_strategies_and_modules_that_do_not_fit(self) -> None:
        def run() -> Any:
            mesh = paro.torch.init_mesh("cpu", 2)
            flat = init_device_mesh("cpu", (4,), mesh_dim_names=("all",))
            texts = []

            def to_string(body: Callable[[], Any]) -> None:
                try:
                    body()
                    texts.append("nothing was raised")
                except (ValueError, RuntimeError, TypeError) as error:
                    texts.append(str(error))

            to_string(lambda: paro.torch.fully_shard(Model(), mesh=flat, strategy="IIG"))
            to_string(lambda: paro.torch.fully_shard(Model(), mesh=mesh, strategy="GIG"))
            to_string(lambda: paro.torch.fully_shard(Model(), mesh=mesh, strategy="IIN"))
            model = sharded(Model(), "IIG", mesh)
            to_string(lambda: paro.torch.fully_shard(model, mesh=mesh))
            to_string(lambda: model(torch.ones(1, WIDTH)))
            to_string(lambda: paro.torch.microbatch(model, last=True).__enter__())
            optimizer = paro.torch.Optimizer(torch.optim.AdamW, model)
            with paro.torch.microbatch(model, last=False):
                loss_of(model, *micro_batches(0, 0, 1, 1)[0], 1).backward()
            to_string(lambda: optimizer.step())
            to_string(lambda: paro.torch.clip_grad_norm_(model, 1.0))
            to_string(lambda: paro.torch.Optimizer(torch.optim.AdamW, model))
            to_string(lambda: paro.torch.clip_grad_norm_(Model(), 1.0))
            optimizer.zero_grad()
            frozen = Model()
            freeze(frozen)
            later = paro.torch.Optimizer(torch.optim.AdamW, sharded(frozen, "IIG", mesh))
            frozen.requires_grad_(True)
            to_string(later.step)
            for name in ("IIG", "GGG"):
                later = paro.torch.Optimizer(torch.optim.AdamW, sharded(Model(), name, mesh))
                later.model.norm.requires_grad_(False)  # type: ignore[union-attr, operator]
                to_string(later.step)
            mixed = Model()
            fully_shard(mixed.blocks[0])
            to_string(lambda: paro.torch.fully_shard(mixed, mesh=mesh))
            to_string(lambda: paro.torch.fully_shard(Model(), mesh=mesh, reshard_after_forward=False))
            without_elements = Model()
            without_elements.extra = torch.nn.Parameter(torch.empty(0, 4))
            to_string(lambda: paro.torch.fully_shard(without_elements, mesh=mesh))
            return texts

        expected = [
            "needs a mesh with an inner dimension",
            "III keeps both inside groups",
            "strategy IIN: the optimizer state is held by every rank",
            "is sharded already; call fully_shard once",
            "before the optimizer was made",
            "make paro.torch.Optimizer for this model first",
            "Optimizer.step after 1 micro-batches, none of them marked as the last",
            "clip_grad_norm_ after 1 micro-batches",
            "has one already",
            "no module of this model was given to paro.torch.fully_shard",
            "blocks.0.first.weight was frozen when the optimizer was made",
            *["norm.weight was frozen after the optimizer was made"] * 2,
            "was sharded by torch's fully_shard",
            "reshard_after_forward is False, but under strategy IIG",
            "parameter extra of shape [0, 4] has no elements",
        ]
        for texts in run_ranks([2, 2], run, backend="gloo"):
            self.assertEqual(len(texts), len(expected))
            for text, part in zip(texts, expected, strict=True):
                self.assertIn(part, text)


class Example(unittest.TestCase):
    """What the guide prints, in fewer steps."""

    def output_of(self, *arguments: str) -> str:
        command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4",
                   EXAMPLE, "--steps", "2", "--width", "64", "--group-size", "2", *arguments]
        done = subprocess.run(command, text=True, capture_output=True, timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_the_example_over_horing_sends_what_the_plan_says(self) -> None:
        text = self.output_of("--strategy", "IIG", "--backend", "horing", "--explain")
        self.assertIn("optimizer state  G  split over all 4 ranks", text)
        found = re.search(r"([\d.]+) MB inside its group \(plan ([\d.]+)\), ([\d.]+) MB between groups \(plan ([\d.]+)\)", text)
        assert found is not None, text
        self.assertEqual(found[1], found[2])
        self.assertEqual(found[3], found[4])

    def test_the_example_asks_the_planner(self) -> None:
        text = self.output_of("--strategy", "auto", "--backend", "gloo")
        self.assertRegex(text, r"auto: [NIG]{3} \(\d+ MB/s inside groups and \d+ MB/s between them, measured\)")
        self.assertRegex(text, r"[NIG]{3} over gloo: \d+ tokens/s")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
