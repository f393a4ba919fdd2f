"""What programs do without asking paro.torch: drop gradients in their own ways, write to parameters, sum
in 16 bits, make optimizers from what torch takes."""

from __future__ import annotations

import copy
import sys
import unittest
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, OffloadPolicy

import paro.torch
from models import Model, freeze, loss_of, micro_batches
from ranks import run_ranks
from training import relative, sharded, whole

WITH_MASTERS = [name for name, strategy in paro.torch.STRATEGIES.items() if strategy.splits_shards]
STEPS = 3
LR = 0.1
CLOSE = 2e-5
BF16 = MixedPrecisionPolicy(param_dtype=torch.bfloat16)


def one_pass(model: nn.Module, step: int) -> None:
    with paro.torch.microbatch(model, last=True):
        loss_of(model, *micro_batches(step, dist.get_rank(), dist.get_world_size(), 1)[0], 1).backward()


def made(strategy: str, **options: Any) -> Any:
    """On two groups of one rank."""
    model = sharded(Model(), strategy, paro.torch.init_mesh("cpu", 1), **options)
    return model, paro.torch.Optimizer(torch.optim.SGD, model, lr=LR)


def alone(change: Callable[[Any], None] = lambda _: None) -> Any:
    """`change` comes after each step."""
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    for step in range(STEPS):
        loss_of(model, *micro_batches(step, 0, 1, 1)[0], 1).backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            change(model)
    return model


def distance(model: nn.Module, reference: nn.Module) -> float:
    pairs = zip(model.parameters(), reference.parameters(), strict=True)
    return max(relative(whole(p).detach(), r.detach()) for p, r in pairs)


def set_to_none(model: Any) -> None:
    for parameter in model.parameters():
        parameter.grad = None


def zero_children(model: Any) -> None:
    for child in model.children():
        child.zero_grad()


def to_string(body: Callable[[], Any]) -> str:
    try:
        body()
    except (AssertionError, RuntimeError, TypeError, ValueError) as error:
        return str(error)
    return "nothing was raised"


class Gradients(unittest.TestCase):
    def test_a_step_uses_its_gradients_up_however_a_program_drops_them(self) -> None:
        def run() -> Any:
            found = {}
            reference = alone()
            for name in [*WITH_MASTERS, "III"]:
                for drop in (set_to_none, zero_children):
                    model, optimizer = made(name)
                    for step in range(STEPS):
                        one_pass(model, step)
                        optimizer.step()
                        drop(model)
                    found[name, drop.__name__] = distance(model, reference)
            return found

        for found in run_ranks([1, 1], run, backend="gloo"):
            for case, worst in found.items():
                self.assertLess(worst, CLOSE, case)

    def test_optimizers_of_parts_with_the_zero_grad_of_the_whole(self) -> None:
        def run() -> Any:
            model: Any = Model()
            mesh = paro.torch.init_mesh("cpu", 1)
            parts = [*model.blocks, model.norm, model.head]
            for part in parts:
                paro.torch.fully_shard(part, mesh=mesh, strategy="IIG")
            optimizers = [paro.torch.Optimizer(torch.optim.SGD, part, lr=LR) for part in parts]
            for step in range(STEPS):
                with paro.torch.microbatch(model, last=True):
                    x, y = micro_batches(step, dist.get_rank(), dist.get_world_size(), 1)[0]
                    for layer in model.blocks:
                        x = layer(x)
                    nn.functional.cross_entropy(model.head(model.norm(x)), y).backward()
                for optimizer in optimizers:
                    optimizer.step()
                model.zero_grad()
            return distance(model, alone())

        self.assertLess(max(run_ranks([1, 1], run, backend="gloo")), CLOSE)

    def test_a_step_that_the_scaler_left_out_is_in_no_later_one(self) -> None:
        def run() -> Any:
            model, optimizer = made("IIG")
            scaler = paro.torch.GradScaler("cpu", init_scale=1024.0)
            for step in (9, *range(STEPS)):
                x, y = micro_batches(step, dist.get_rank(), dist.get_world_size(), 1)[0]
                with paro.torch.microbatch(model, last=True):
                    (scaler.scale(loss_of(model, x, y, 1)) * (float("inf") if step == 9 else 1.0)).backward()
                scaler.step(optimizer)
                scaler.update()
                set_to_none(model)
            return distance(model, alone()), scaler.get_scale()

        for worst, scale in run_ranks([1, 1], run, backend="gloo"):
            self.assertLess(worst, CLOSE)
            self.assertEqual(scale, 512.0)

    def test_sums_over_micro_batches_are_fp32_under_every_strategy(self) -> None:
        """Of 1 and eight times 2^-9, which bf16 rounds away one by one."""

        class Product(nn.Module):
            def __init__(self, dtype: torch.dtype) -> None:
                super().__init__()
                self.weight = nn.Parameter(torch.zeros(8, dtype=dtype))

            def forward(self, factor: torch.Tensor) -> torch.Tensor:
                return (self.weight * factor).sum()

        def run() -> Any:
            found = {}
            mesh = paro.torch.init_mesh("cpu", 2)
            for name in paro.torch.STRATEGIES:
                for dtype, policy in ((torch.float32, BF16), (torch.bfloat16, None)):
                    model = Product(dtype)
                    paro.torch.fully_shard(model, mesh=mesh, strategy=name, mp_policy=policy)
                    optimizer = paro.torch.Optimizer(torch.optim.SGD, model, lr=1.0)
                    for index in range(9):
                        factor = torch.full((8,), 2.0**-9 if index else 1.0, dtype=torch.bfloat16)
                        with paro.torch.microbatch(model, last=index == 8):
                            model(factor).backward()
                    optimizer.step()
                    found[name, dtype] = whole(model.weight).unique().tolist()
            return found

        for found in run_ranks([2, 2], run, backend="gloo"):
            for case, values in found.items():
                self.assertEqual(values, [-1.015625], case)

    def test_explain_says_what_torch_s_clipping_sees(self) -> None:
        def run() -> Any:
            found = []
            for name in ("IIG", "GGG"):
                model, _ = made(name)
                one_pass(model, 0)
                grads = [parameter.grad is None for parameter in model.parameters()]
                found.append((grads, paro.torch.explain(model)))
            return found

        for (grads, text), (others, other) in run_ranks([1, 1], run, backend="gloo"):
            self.assertTrue(all(grads))
            self.assertIn(".grad of parameters None at all times: torch's clip_grad_norm_ clips nothing", text)
            self.assertFalse(any(others))
            self.assertIn(".grad of parameters this rank's shard of the gradient", other)


class Writes(unittest.TestCase):
    def test_what_a_program_writes_to_parameters_is_what_trains(self) -> None:
        def clamp(model: Any) -> None:
            for parameter in model.parameters():
                parameter.clamp_(-0.1, 0.1)

        def data(model: Any) -> None:
            model.head.weight.data.mul_(0.5)

        def load(model: Any) -> None:  # of a module that is no unit
            model.norm.load_state_dict({key: value * 0.5 for key, value in model.norm.state_dict().items()})

        def run() -> Any:
            found = {}
            for change in (clamp, data, load):
                reference = alone(change)
                for name in [*WITH_MASTERS, "III"]:
                    model, optimizer = made(name)
                    for step in range(STEPS):
                        one_pass(model, step)
                        optimizer.step()
                        optimizer.zero_grad()
                        with torch.no_grad():
                            change(model)
                    state, _ = paro.torch.get_state_dict(model, optimizer)
                    saved = state["head.weight"]  # rows of this rank, in its group of one
                    flat = saved.flat if hasattr(saved, "flat") else saved.to_local().flatten()
                    own = reference.head.weight.detach().flatten().tensor_split([30])[dist.get_rank()]
                    worst = relative(flat, own) if name in WITH_MASTERS else 0.0
                    found[name, change.__name__] = max(worst, distance(model, reference))
            return found

        for found in run_ranks([1, 1], run, backend="gloo"):
            for case, worst in found.items():
                self.assertLess(worst, CLOSE, case)

    def test_masters_keep_their_bits_where_nothing_was_written(self) -> None:
        """In bf16, in which a shard is less than its master."""

        def run() -> Any:
            model, optimizer = made("IIG", mp_policy=BF16)
            for step in range(STEPS):
                one_pass(model, step)
                optimizer.step()
                optimizer.zero_grad()

            def masters() -> list[torch.Tensor]:
                state, _ = paro.torch.get_state_dict(model, optimizer)
                return [state[name].flat.clone() for name, _ in model.named_parameters()]

            trained, shards = masters(), [p.detach().clone() for p in model.parameters()]
            with torch.no_grad():
                for parameter in model.parameters():  # an average, for evaluation
                    parameter.fill_(0.25)
                for parameter, shard in zip(model.parameters(), shards, strict=True):
                    parameter.copy_(shard)
            kept = [torch.equal(a, b) for a, b in zip(trained, masters(), strict=True)]
            model.head.load_state_dict(model.head.state_dict())  # what is loaded is bf16
            rounded = [torch.equal(each, each.bfloat16().float()) for each in masters()]
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.fill_(0.25)
            return kept, rounded, [each.bfloat16().unique().tolist() for each in masters()]

        for kept, rounded, filled in run_ranks([1, 1], run, backend="gloo"):
            self.assertTrue(all(kept), kept)
            self.assertEqual(rounded[-2:], [True, True])
            self.assertFalse(rounded[0] or rounded[-4])  # of another unit, and of the same
            self.assertEqual(filled, [[0.25]] * len(filled))


class Evaluating(unittest.TestCase):
    def test_weights_gathered_between_backward_and_step_are_not_used_after_it(self) -> None:
        def run() -> Any:
            x, y = micro_batches(0, 0, 1, 1)[0]
            reference = alone()
            expected, found = loss_of(reference, x, y, 1).item(), {}
            for name in ("IIG", "NIG", "GGG"):
                model, optimizer = made(name)
                for step in range(STEPS):
                    one_pass(model, step)
                    with torch.no_grad():
                        loss_of(model, x, y, 1)
                    optimizer.step()
                    optimizer.zero_grad()
                with torch.no_grad():
                    found[name] = abs(loss_of(model, x, y, 1).item() / expected - 1.0)
            return found

        for found in run_ranks([1, 1], run, backend="gloo"):
            for name, worst in found.items():
                self.assertLess(worst, CLOSE, name)


class Making(unittest.TestCase):
    def test_an_optimizer_takes_parameters_in_the_forms_that_torch_takes(self) -> None:
        def run() -> Any:
            mesh = paro.torch.init_mesh("cpu", 1)
            found = {}
            forms: dict[str, Callable[[Any], Any]] = {
                "named": lambda m: m.named_parameters(),
                "all": lambda m: m.parameters(),
                "named in a group": lambda m: [{"params": list(m.named_parameters())}],
                "one tensor": lambda m: [{"params": m.norm.weight}],
                "a group of frozen ones": lambda m: [{"params": m.head.bias}, {"params": m.norm.weight, "lr": 2.0}],
            }
            for name, form in forms.items():
                model = Model()
                freeze(model)
                sharded(model, "IIG", mesh, offload_policy=OffloadPolicy())
                optimizer = paro.torch.Optimizer(torch.optim.SGD, model, form(model), lr=LR)
                frozen = [p.detach().clone() for p in model.parameters() if not p.requires_grad]
                norm = whole(model.norm.weight).detach().clone()
                one_pass(model, 0)
                optimizer.step()
                still = [p for p in model.parameters() if not p.requires_grad]
                kept = all(torch.equal(whole(a), whole(b)) for a, b in zip(frozen, still, strict=True))
                sizes = [len(group["params"]) for group in optimizer.param_groups]
                found[name] = (sizes, kept, not torch.equal(norm, whole(model.norm.weight)))
            return found

        for found in run_ranks([1, 1], run, backend="gloo"):
            expected = {"named": [7], "all": [7], "named in a group": [7], "one tensor": [1], "a group of frozen ones": [0, 1]}
            self.assertEqual(found, {name: (sizes, True, True) for name, sizes in expected.items()})

    def test_groups_have_what_the_optimizer_works_on_in_the_order_of_the_model(self) -> None:
        """As the guide says: the parameters with FSDP2's own states, else this rank's masters of them."""

        def run() -> Any:
            found = []
            for name in ("IIG", "GGG"):
                model, optimizer = made(name)
                own = optimizer.param_groups[0]["params"]
                pairs = list(zip(model.named_parameters(), own, strict=True))
                found.append((
                    [optimizer.names[id(each)] == n and optimizer.master_of(p) is each for (n, p), each in pairs],
                    [each is p for (_, p), each in pairs], [each.ndim == 1 for each in own],
                ))
            return found

        for split, whole_shards in run_ranks([1, 1], run, backend="gloo"):
            self.assertTrue(all(split[0]) and all(whole_shards[0]))
            self.assertTrue(all(split[2]) and not any(split[1]))
            self.assertTrue(all(whole_shards[1]))

    def test_a_subclass_of_an_elementwise_optimizer_says_that_it_is_one(self) -> None:
        class ByTheLargest(torch.optim.AdamW):
            """Of a tensor's elements."""

        def run() -> Any:
            paro.torch.Optimizer(ByTheLargest, sharded(Model(), "IIG", paro.torch.init_mesh("cpu", 1)), elementwise=True)
            model = sharded(Model(), "IIG", paro.torch.init_mesh("cpu", 1))
            return to_string(lambda: paro.torch.Optimizer(ByTheLargest, model))

        text = run_ranks([1], run, backend="gloo")[0]
        self.assertIn("ByTheLargest is not one of torch's element-wise optimizers", text)
        self.assertIn("add elementwise=True", text)

    def test_what_cannot_be_taken_is_told_in_one_line(self) -> None:
        def run() -> Any:
            model, optimizer = made("IIG")
            one_pass(model, 0)
            other = sharded(Model(), "IIG", paro.torch.init_mesh("cpu", 1))
            weight: Any = next(other.parameters())
            kinds: list[Any] = [torch.optim.SGD([nn.Parameter(torch.ones(1))]), "adamw"]
            texts = [to_string(lambda kind=kind: paro.torch.Optimizer(kind, other)) for kind in kinds]
            texts += [
                to_string(lambda: paro.torch.Optimizer(torch.optim.SGD, other, weight)),
                to_string(lambda: paro.torch.Optimizer(torch.optim.SGD, other, [nn.Parameter(torch.ones(1))])),
                to_string(lambda: paro.torch.Optimizer(torch.optim.SGD, other, [])),
                to_string(lambda: copy.deepcopy(optimizer)),
                to_string(lambda: paro.torch.clip_grad_norm_(model, 1.0, 0)),
            ]
            largest = [paro.torch.clip_grad_norm_(model, 1e9, kind).item() for kind in ("inf", float("inf"))]
            return texts, largest

        expected = [
            "this is a SGD", "this is a str", "params is one tensor", "no trainable parameter of the model",
            "params has no trainable parameter", "cannot be copied or pickled", "norm_type is 0.0; give a number above 0",
        ]
        for texts, largest in run_ranks([1, 1], run, backend="gloo"):
            self.assertEqual(len(texts), len(expected))
            for text, part in zip(texts, expected, strict=True):
                self.assertIn(part, text)
                self.assertNotIn("\n", text)
            self.assertEqual(largest[0], largest[1])

    def test_ranks_whose_optimizers_differ_all_get_the_field_and_the_ranks(self) -> None:
        def run() -> Any:
            mesh, texts = paro.torch.init_mesh("cpu", 1), []
            odd = dist.get_rank() == 1
            for options, params in (
                ({"lr": 0.2 if odd else LR}, lambda m: None),
                ({"lr": LR}, lambda m: list(m.parameters())[: -1 if odd else None]),
                ({"lr": LR}, lambda m: [{"params": m.parameters(), "momentum": 0.5 if odd else 0.0}]),
            ):
                for name in ("IIG", "GGG"):
                    model = sharded(Model(), name, mesh)
                    texts.append(to_string(lambda m=model, o=options, p=params: paro.torch.Optimizer(
                        torch.optim.SGD, m, p(m), **o)))
            return texts

        expected = [
            "option lr: 0.1 on rank 0; 0.2 on rank 1",
            "the groups of head.bias: [0] on rank 0; not given on rank 1",
            "option momentum of group 0: 0.0 on rank 0; 0.5 on rank 1",
        ]
        for texts in run_ranks([1, 1], run, backend="gloo"):
            for text, part in zip(texts, [each for each in expected for _ in range(2)], strict=True):
                self.assertIn(f"paro.torch.Optimizer: ranks have different values of {part}", text)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
