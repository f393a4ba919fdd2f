"""The methods of FSDPModule and the options of torch's fully_shard: each is honoured under every strategy,
or refused by its name."""

from __future__ import annotations

import inspect
import itertools
import sys
import unittest
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp._fully_shard import _fsdp_common
from torch.distributed.tensor import DTensor, Replicate, Shard

import paro.torch
from models import CLASSES, WIDTH, Model, loss_of, micro_batches, trained_alone
from paro.torch.fsdp_methods import CHECKED, DROPPING, HONOURED, public_methods
from ranks import run_ranks
from training import LR, adamw, relative, sharded, step_of, whole

CLOSE = 2e-5
SPLIT = [name for name, strategy in paro.torch.STRATEGIES.items() if strategy.splits_shards]
NO_LIMIT = 1e9


def to_string(body: Callable[[], Any]) -> str:
    try:
        body()
    except (NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        return str(error)
    return "nothing was raised"


def units(model: nn.Module) -> list[Any]:
    return [module for module in model.modules() if isinstance(module, FSDPModule)]


def one_pass(model: nn.Module, step: int) -> None:
    loss_of(model, *micro_batches(step, dist.get_rank(), dist.get_world_size(), 1)[0], 1).backward()


def norm_of(name: str, factor: float | None, policy: MixedPrecisionPolicy, mesh: DeviceMesh, sums: bool) -> float:
    """Of the whole gradient of two micro-batches, in each of which a rank's is its number and one."""
    model: Any = nn.Linear(4, 4, bias=False)
    paro.torch.fully_shard(model, mesh=mesh, strategy=name, mp_policy=policy)
    paro.torch.Optimizer(torch.optim.SGD, model, lr=LR)
    model.set_force_sum_reduction_for_comms(sums)
    if factor is not None:
        model.set_gradient_divide_factor(factor)
    for last in (False, True):
        with paro.torch.microbatch(model, last=last):
            model(torch.full((1, 4), 1.0 + dist.get_rank())).sum().backward()
    return paro.torch.clip_grad_norm_(model, NO_LIMIT).item()


class Gathers:
    """An all-gather that counts what FSDP2 asks of it."""

    def __init__(self) -> None:
        self.bytes = 0

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any, async_op: bool = False
    ) -> Any:
        self.bytes += output_tensor.nbytes
        return dist.all_gather_into_tensor(output_tensor, input_tensor, group=group, async_op=async_op)


class Scatters(Gathers):
    """A reduce-scatter that counts."""

    def __call__(  # type: ignore[override]
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any, op: Any, async_op: bool = False
    ) -> Any:
        self.bytes += input_tensor.nbytes
        return dist.reduce_scatter_tensor(output_tensor, input_tensor, op=op, group=group, async_op=async_op)


class Methods(unittest.TestCase):
    def test_every_public_method_of_this_torch_is_known(self) -> None:
        """A release that adds one fails here: say in fsdp_methods.py what it does under the strategies."""
        known = HONOURED | set(CHECKED) | DROPPING
        self.assertEqual(public_methods() - known, set())
        self.assertEqual(len(known), len(HONOURED) + len(CHECKED) + len(DROPPING))

    def test_a_method_that_paro_does_not_know_is_refused_by_its_name(self) -> None:
        def run() -> str:
            FSDPModule.set_gravity = lambda *_: None  # type: ignore[attr-defined]
            model: Any = paro.torch.fully_shard(nn.Linear(4, 4), mesh=paro.torch.init_mesh("cpu", 1))
            return to_string(lambda: model.set_gravity(9.81))

        self.assertIn("set_gravity: paro.torch does not know", run_ranks([1], run, backend="gloo")[0])

    def check_factors(self, cases: list[tuple[str, torch.dtype, float | None, bool]], **options: Any) -> None:
        def run() -> Any:
            mesh = paro.torch.init_mesh("cpu", 2)
            return [
                norm_of(name, factor, MixedPrecisionPolicy(reduce_dtype=kind), mesh, sums)
                for name, kind, factor, sums in cases
            ]

        for norms in run_ranks([2, 2], run, **options):
            for case, norm in zip(cases, norms, strict=True):
                # 16 elements of twice 1 + 2 + 3 + 4; fp16 holds a third to three digits.
                self.assertAlmostEqual(norm * (case[2] or 4.0) / 80, 1.0, delta=1e-3, msg=f"{case}")

    def test_the_sum_of_all_ranks_is_divided_by_the_factor_that_was_set(self) -> None:
        """Whether FSDP2 divides by itself, as for sums and in fp16, or has the group do it: gloo averages only."""
        cases: list[Any] = [(name, torch.float32, factor, True) for name in [*SPLIT, "GGG", "III"] for factor in (1.0, 3.0)]
        cases += [(name, torch.float16, factor, False) for name in ("IIG", "IGG") for factor in (None, 3.0)]
        cases += [("IIG", torch.float32, 2.0, False), ("NNN", torch.float32, 3.0, False)]
        self.check_factors(cases, backend="gloo")

    def test_factors_hold_where_the_network_multiplies(self) -> None:
        self.check_factors([(name, torch.float32, factor, False) for name in ("IIG", "III") for factor in (1.0, 3.0)])

    def test_what_contradicts_the_strategy_is_refused_by_its_name(self) -> None:
        def run() -> Any:
            mesh = paro.torch.init_mesh("cpu", 1)
            shard = lambda name, **options: paro.torch.fully_shard(  # noqa: E731
                nn.Linear(4, 4), mesh=mesh, strategy=name, **options)
            made: dict[str, Any] = {name: shard(name) for name in ("IIG", "NIG", "GGG", "III", "NNN")}
            half = shard("III", mp_policy=MixedPrecisionPolicy(reduce_dtype=torch.float16))
            hook = lambda _: None  # noqa: E731
            made["III"].set_gradient_divide_factor(2.0)
            refused = {
                "set_requires_all_reduce: under": lambda: made["IIG"].set_requires_all_reduce(False),
                "set_all_reduce_hook: under": lambda: made["IIG"].set_all_reduce_hook(hook),
                "give True or None": lambda: made["IIG"].set_reshard_after_forward(False),
                "give False or None": lambda: made["NIG"].set_reshard_after_forward(reshard_after_forward=True),
                "set_gradient_divide_factor: FSDP2 would divide by 2.0 twice":
                    lambda: half.set_gradient_divide_factor(2.0),
                "set_force_sum_reduction_for_comms: FSDP2 would divide by 2.0 twice":
                    lambda: made["III"].set_force_sum_reduction_for_comms(True),
            }  # fmt: skip
            taken: list[Callable[[], Any]] = [
                lambda: made["IIG"].set_requires_all_reduce(True),
                lambda: made["III"].set_requires_all_reduce(False, recurse=False),
                lambda: made["GGG"].set_all_reduce_hook(hook),
                lambda: made["IIG"].set_reshard_after_forward(True),
                lambda: made["NIG"].set_reshard_after_forward(False),
                lambda: made["NNN"].set_reduce_scatter_divide_factor(1.0),
                lambda: made["GGG"].set_force_sum_reduction_for_comms(True),
            ]
            paro.torch.Optimizer(torch.optim.SGD, made["IIG"])
            made["IIG"].set_requires_gradient_sync(False)
            refused["use one of them"] = lambda: paro.torch.microbatch(made["IIG"], last=True).__enter__()
            return {part: to_string(body) for part, body in refused.items()}, [to_string(body) for body in taken]

        for refused, taken in run_ranks([1, 1], run, backend="gloo"):
            for part, text in refused.items():
                self.assertIn(part, text)
            self.assertEqual(taken, ["nothing was raised"] * len(taken))

    def test_methods_that_are_honoured_leave_the_step_as_it_is(self) -> None:
        needs_gpus = {"set_post_optim_event", "set_symm_mem_for_comm"}

        def run() -> Any:
            mesh = paro.torch.init_mesh("cpu", 2)
            _, _, parameters = trained_alone(Model(), 2, adamw, None)
            gathers, scatters = Gathers(), Scatters()
            both: dict[str, Any] = {
                "reshard": (), "unshard": (), "set_is_last_backward": (True,), "set_requires_gradient_sync": (True,),
                "set_reshard_after_backward": (False,), "set_reduce_scatter_max_input_buffers": (2,),
                "set_reduce_scatter_unused_params": (True,), "set_separate_reduce_scatter_group": (),
                "set_unshard_in_backward": (True,),
            }  # fmt: skip
            cases: list[dict[str, Any]] = [
                {**both, "set_custom_all_gather": (gathers,), "set_custom_reduce_scatter": (scatters,)},
                {**both, "set_allocate_memory_from_process_group_for_comm": (True,),
                 "set_reduce_scatter_divide_factor": (2.0,)},
            ]  # fmt: skip
            found, called = [], set(needs_gpus)
            for case in cases:
                model: Any = sharded(Model(), "IIG", mesh)
                case["set_modules_to_forward_prefetch"] = case["set_modules_to_backward_prefetch"] = ([model.blocks[1]],)
                optimizer = paro.torch.Optimizer(torch.optim.AdamW, model, lr=LR)
                for unit in units(model):
                    for name, arguments in case.items():
                        if name in public_methods():  # earlier releases have fewer
                            getattr(unit, name)(*arguments)
                called |= set(case)
                for step in range(2):  # AdamW does not see the factor
                    step_of(model, optimizer, step, 1)
                found.append(max(relative(whole(p), parameters[n]) for n, p in model.named_parameters()))
            return found, gathers.bytes > 0 and scatters.bytes > 0, called

        for found, counted, called in run_ranks([2, 2], run, backend="gloo"):
            self.assertLess(max(found), CLOSE)
            self.assertTrue(counted)
            self.assertEqual(called, HONOURED)

    def test_passes_held_back_by_fsdp2_s_own_switch_come_with_the_next(self) -> None:
        """As torch's pipelines do it."""

        def run() -> Any:
            mesh = paro.torch.init_mesh("cpu", 2)
            _, _, parameters = trained_alone(Model(), 1, adamw, None)
            found = {}
            for name in ("IIG", "ING"):
                model: Any = sharded(Model(), name, mesh)
                optimizer = paro.torch.Optimizer(torch.optim.AdamW, model, lr=LR)
                for index, (x, y) in enumerate(micro_batches(0, dist.get_rank(), 4, 3)):
                    model.set_is_last_backward(index == 2)
                    model.set_reshard_after_backward(index == 2)
                    model.set_requires_gradient_sync(index == 2)
                    loss_of(model, x, y, 3).backward()
                optimizer.step()
                found[name] = max(relative(whole(p), parameters[n]) for n, p in model.named_parameters())
            return found

        for found in run_ranks([2, 2], run, backend="gloo"):
            for name, worst in found.items():
                self.assertLess(worst, CLOSE, name)

    def test_an_iteration_that_an_exception_ends_is_in_no_later_step(self) -> None:
        def run() -> Any:
            mesh = paro.torch.init_mesh("cpu", 1)
            _, _, parameters = trained_alone(Model(), 1, adamw, None)
            found = {}
            ways = ["zero_grad", *({"reset_iter_state"} & public_methods())]  # from torch 2.13 on
            for name, way in itertools.product(("IIG", "ING"), ways):
                model: Any = sharded(Model(), name, mesh)
                optimizer = paro.torch.Optimizer(torch.optim.AdamW, model, lr=LR)
                try:
                    with paro.torch.microbatch(model, last=False):
                        one_pass(model, 7)
                    with paro.torch.microbatch(model, last=True):
                        model.blocks[0].register_full_backward_hook(failing)
                        one_pass(model, 7)
                except KeyError:
                    model.blocks[0]._backward_hooks.clear()
                    getattr(model, way)()
                step_of(model, optimizer, 0, 3)
                found[name, way] = max(relative(whole(p), parameters[n]) for n, p in model.named_parameters())
            return found

        def failing(*_: Any) -> None:
            raise KeyError("out of memory, say")

        for found in run_ranks([1, 1], run, backend="gloo"):
            for name, worst in found.items():
                self.assertLess(worst, CLOSE, name)


class Names(unittest.TestCase):
    def test_what_an_earlier_version_called_place_of_still_answers(self) -> None:
        self.assertIs(paro.torch.Optimizer.place_of, paro.torch.Optimizer.range_of_parameter)


class Options(unittest.TestCase):
    def test_every_option_of_this_torch_is_known(self) -> None:
        """A release that adds one fails here: say in fsdp_methods.py what it does under the strategies."""
        known = {"module", "mesh", "reshard_after_forward", "shard_placement_fn", "mp_policy", "offload_policy",
                 "ignored_params", "dp_mesh_dims"}  # fmt: skip
        self.assertEqual(set(inspect.signature(fully_shard).parameters) - known, set())

    def test_what_contradicts_the_strategy_is_refused_by_its_name(self) -> None:
        def run() -> Any:
            mesh = paro.torch.init_mesh("cpu", 1)

            def shard(name: str, **options: Any) -> Any:
                return paro.torch.fully_shard(nn.Linear(4, 4), mesh=mesh, strategy=name, **options)

            others: dict[str, Any] = {"Replicate": Replicate()}
            if result := getattr(_fsdp_common, "ShardPlacementResult", None):  # from torch 2.12 on
                others["ShardPlacementResult"] = result(Shard(0), _fsdp_common.FSDPMeshInfo(mesh["inter"], 0))
            refused = {
                "reshard_after_forward is False, but under strategy IIG": lambda: shard("IIG", reshard_after_forward=False),
                "reshard_after_forward is True, but under strategy NIG": lambda: shard("NIG", reshard_after_forward=True),
                "reshard_after_forward is 1, but": lambda: shard("GGG", reshard_after_forward=1),
                "takes no option colour": lambda: shard("III", colour="red"),
                "dp_mesh_dims is not taken": lambda: shard("III", dp_mesh_dims="intra"),  # of any type
            } | {
                f"shard_placement_fn gave a {kind}": lambda other=other: shard("IIG", shard_placement_fn=lambda _: other)
                for kind, other in others.items()
            }  # fmt: skip
            taken = [
                to_string(lambda name=name, value=value: shard(name, reshard_after_forward=value))
                for name in ("IIG", "NIG", "NNN", "GGG") for value in (None, name[0] != "N")
            ]  # fmt: skip
            return {part: to_string(body) for part, body in refused.items()}, taken

        for refused, taken in run_ranks([1, 1], run, backend="gloo"):
            for part, text in refused.items():
                self.assertIn(part, text)
            self.assertEqual(taken, ["nothing was raised"] * 8)

    def test_gathers_are_those_that_the_plan_counts_however_a_root_is_resharded(self) -> None:
        def run() -> Any:
            mesh = paro.torch.init_mesh("cpu", 2)
            found = {}
            for value in (None, True, "later"):
                model: Any = Model()
                option = None if value == "later" else value
                for module in (*model.blocks, model):
                    paro.torch.fully_shard(module, mesh=mesh, strategy="IIG", reshard_after_forward=option)
                optimizer = paro.torch.Optimizer(torch.optim.SGD, model, lr=LR)
                if value == "later":
                    model.set_reshard_after_forward(True)
                gathers = Gathers()
                for unit in units(model):
                    unit.set_custom_all_gather(gathers)
                planned = paro.torch.traffic_of_a_step(model, 1).intra
                step_of(model, optimizer, 0, 1)
                summed = sum(-(-p.shape[0] // 2) * 2 * p[:1].numel() for p in Model().parameters()) * 4
                found[value] = (planned, gathers.bytes / 2 + summed / 2)  # of a group of two
            return found

        for found in run_ranks([2], run, backend="gloo"):
            for value, (planned, counted) in found.items():
                self.assertEqual(planned, counted, value)
            self.assertGreater(found[True][0], found[None][0])
            self.assertEqual(found["later"], found[True])

    def test_shards_of_columns_train_too(self) -> None:
        def columns(parameter: nn.Parameter) -> Shard | None:
            return Shard(1) if parameter.ndim == 2 and parameter.shape[1] % 2 == 0 else None

        def run() -> Any:
            mesh = paro.torch.init_mesh("cpu", 2)
            _, _, parameters = trained_alone(Model(), 1, adamw, None)
            found = {}
            for name in ("IIG",):
                model: Any = sharded(Model(), name, mesh, shard_placement_fn=columns)
                optimizer = paro.torch.Optimizer(torch.optim.AdamW, model, lr=LR)
                step_of(model, optimizer, 0, 3)
                state, _ = paro.torch.get_state_dict(model, optimizer)
                box = state["head.weight"].__create_chunk_list__()[0].sizes
                found[name] = (
                    max(relative(whole(p), parameters[n]) for n, p in model.named_parameters()),
                    isinstance(model.head.weight, DTensor) and tuple(box),
                )
            return found

        for found in run_ranks([2, 2], run, backend="gloo"):
            for name, (worst, box) in found.items():
                self.assertLess(worst, CLOSE, name)
                self.assertLessEqual(box[1], WIDTH // 2, name)
                self.assertLessEqual(box[0], CLASSES, name)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
