"""Ranks that stop, and ranks that are given other or wrong arguments: all end, soon, with one error."""

from __future__ import annotations

import importlib.util
import os
import sys
import unittest
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Shard

import paro.torch
import training  # noqa: F401  (takes --full out of the arguments)
from models import Model
from paro._library import plan
from paro.torch import planning
from paro.torch.meshes import world_of
from paro.torch.planning import _units_of
from ranks import RanksFailed, run_ranks

SOON = 4
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "torch" / "train.py"


class Timeouts(unittest.TestCase):
    def test_every_group_of_a_mesh_ends_with_the_timeout_of_the_world(self) -> None:
        def run(timeout: timedelta) -> str:
            mesh = paro.torch.init_mesh("cpu", 2)
            turned = DeviceMesh("cpu", [[3, 2], [1, 0]], mesh_dim_names=("inter", "intra"))
            for each in turned.get_all_groups():  # as the guide says
                each.set_timeout(timeout)
            groups = [world_of(turned).get_group(), mesh.get_group("inter"), mesh.get_group("intra")]
            rank = dist.get_rank()
            store = dist.distributed_c10d._get_default_store()
            text = "nothing was raised"
            try:
                if rank != 3:  # each of the others is in a group with it
                    dist.all_reduce(torch.ones(4), group=groups[rank])
            except RuntimeError as error:
                text = str(error)
            # A rank that leaves ends the others' waits.
            store.set(f"ended {rank}", "")
            store.wait([f"ended {other}" for other in range(4)], timedelta(seconds=300))
            return text

        for backend in ("gloo", "horing"):
            with self.subTest(backend):
                seconds, texts = SOON, None
                while texts is None:  # a busy machine may take longer to make the groups
                    try:
                        texts = run_ranks([2, 2], run, timedelta(seconds=seconds), backend=backend, timeout=seconds)
                    except RanksFailed:
                        seconds *= 2
                        if seconds > 16 * SOON:
                            raise
                for text in texts[:3]:
                    self.assertRegex(text, f"(Timed out waiting|did not complete within|timeout of) {seconds}000 ?ms")


def raised_by(calls: list[tuple[str, Callable[[], Any]]]) -> dict[str, str]:
    """By name: the error of each call."""
    found = {}
    for name, call in calls:
        try:
            found[name] = f"nothing was raised, it gave {call()}"
        except Exception as error:
            found[name] = str(error)
    return found


class WrongOnOneRank(unittest.TestCase):
    """The other ranks do not wait: they are told."""

    def assert_all_reported(self, run: Callable[[], dict[str, str]], expected: dict[str, tuple[str, ...]]) -> None:
        results = run_ranks([2, 2], run, backend="gloo")
        for rank, found in enumerate(results):
            self.assertEqual(list(found), list(expected))
            for name, parts in expected.items():
                for part in parts:
                    self.assertIn(part, found[name], f"{name} on rank {rank}")

    def test_a_node_s_number_of_ranks_that_one_rank_has_wrong(self) -> None:
        def run() -> dict[str, str]:
            def shard(local: str) -> Any:
                os.environ["LOCAL_WORLD_SIZE"] = local if dist.get_rank() == 3 else "2"
                return paro.torch.fully_shard(Model(), strategy="IIG")

            calls = [(local, lambda local=local: shard(local)) for local in ("3", "0", "two", "4")]
            found = raised_by(calls)
            shard("2")  # all of them are together still
            return found

        self.assert_all_reported(
            run,
            {
                "3": ("groups of 3 ranks do not divide the 4 ranks",),
                "0": ("groups of 0 ranks do not divide",),
                "two": ("'two'",),
                "4": ("ranks have different values of group size: 2 on ranks 0, 1, 2; 4 on rank 3",),
            },
        )

    def test_arguments_of_fully_shard_that_one_rank_has_wrong(self) -> None:
        def run() -> dict[str, str]:
            mesh = paro.torch.init_mesh("cpu", 2)
            wrong = dist.get_rank() == 3

            def shard(**other: Any) -> Any:
                options = {"module": Model(), "mesh": mesh, "strategy": "IIG", **(other if wrong else {})}
                return paro.torch.fully_shard(options.pop("module"), **options)

            def columns(parameter: nn.Parameter) -> Shard | None:
                return Shard(1) if parameter.ndim == 2 else None

            one = nn.Module()
            one.scale = nn.Parameter(torch.tensor(1.0))
            found = raised_by([("first", lambda: shard(strategy="GIG"))])
            shard()  # from here on its mesh is known
            return found | raised_by([
                ("typo", lambda: shard(strategy="IIK")),
                ("other strategy", lambda: shard(strategy="IGG")),
                ("option", lambda: shard(reshard_after_forward=False)),
                ("other option", lambda: shard(reshard_after_forward=True)),
                ("unknown option", lambda: shard(colour="red")),
                ("placement", lambda: shard(shard_placement_fn=columns)),
                ("mesh", lambda: shard(mesh="cpu")),
                ("module", lambda: shard(module=nn.ReLU())),
                ("scalar", lambda: shard(module=one)),
                ("no mesh", lambda: shard(mesh=None, strategy="GIG")),
                ("group size", lambda: paro.torch.init_mesh("cpu", 3 if wrong else 2)),
            ])

        self.assert_all_reported(run, {
            "first": ("GIG cannot be had",),
            "typo": ("unknown strategy 'IIK'",),
            "other strategy": ("different values of strategy", "IGG on rank 3"),
            "option": ("reshard_after_forward is False, but under strategy IIG",),
            "other option": ("different values of reshard_after_forward", "True on rank 3"),
            "unknown option": ("colour",),
            "placement": ("different values of placements", "on rank 3"),
            "mesh": ("mesh is a str, not a DeviceMesh",),
            "module": ("different values of modules", "['ReLU'] on rank 3"),
            "scalar": ("scalar",),
            "no mesh": ("GIG cannot be had",),
            "group size": ("groups of 3 ranks do not divide the 4 ranks",),
        })

    def test_arguments_of_choose_strategy_that_differ_or_are_wrong(self) -> None:
        def run() -> dict[str, str]:
            mesh = paro.torch.init_mesh("cpu", 2)
            three = init_device_mesh("cpu", (2, 2, 1), mesh_dim_names=("inter", "intra", "tp"))
            nameless, flat = init_device_mesh("cpu", (2, 2)), init_device_mesh("cpu", (4,), mesh_dim_names=("all",))
            rank, model, frozen = dist.get_rank(), Model(), Model().requires_grad_(False)
            choose: Any = paro.torch.choose_strategy
            return raised_by([
                ("memory", lambda: choose(model, mesh, memory_bytes=1e6 if rank == 1 else 1e9)),
                ("accumulation", lambda: choose(model, mesh, accumulation=1 + rank // 2)),
                ("text on rank 0", lambda: choose(model, mesh, memory_bytes="80GB" if rank == 0 else 1e9)),
                ("no model on rank 0", lambda: choose(None if rank == 0 else model, mesh)),
                ("no accumulation", lambda: choose(model, mesh, accumulation=0)),
                ("not a time", lambda: choose(model, mesh, compute_seconds=float("nan"))),
                ("frozen", lambda: choose(frozen, mesh)),
                ("three dimensions", lambda: choose(model, three)),
                ("no names", lambda: choose(model, nameless)),
                ("one dimension", lambda: paro.torch.measure_links(flat)),
            ])

        self.assert_all_reported(run, {
            "memory": ("different values of memory_bytes", "1000000.0 on rank 1"),
            "accumulation": ("different values of accumulation", "2 on ranks 2, 3"),
            "text on rank 0": ("memory_bytes is '80GB'; give a number from 1",),
            "no model on rank 0": ("NoneType",),
            "no accumulation": ("accumulation is 0; give a number from 1",),
            "not a time": ("compute_seconds is nan; give a number from 0",),
            "frozen": ("no parameter that is trained",),
            "three dimensions": ("choose_strategy: the mesh has 3 dimensions, not 2; make one with",),
            "no names": ("choose_strategy: the dimensions of the mesh have no names; make one with",),
            "one dimension": ("measure_links: the mesh has 1 dimension, not 2; make one with",),
        })

    def test_a_module_without_parameters_takes_no_mesh_from_them(self) -> None:
        run = lambda: raised_by([("it", lambda: paro.torch.fully_shard(nn.ReLU()))])  # noqa: E731
        self.assert_all_reported(run, {"it": ("ReLU has no parameters", "give mesh=")})


class Chosen(nn.Module):
    """Layers of one shape, of which a call takes some. With `apart` each is a unit."""

    def __init__(self, mesh: DeviceMesh, strategy: str, apart: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layers = nn.ModuleList(nn.Linear(4, 4, bias=False) for _ in range(2))
        self.head = nn.Linear(4, 4, bias=False)
        for module in (*(self.layers if apart else ()), self):
            paro.torch.fully_shard(module, mesh=mesh, strategy=strategy)

    def forward(self, x: torch.Tensor, which: list[int]) -> torch.Tensor:
        out: torch.Tensor = self.head(sum(self.layers[index](x) for index in which))
        return out


def step_with(model: Chosen, passes: list[tuple[list[int], int]]) -> str:
    """The error of a step with such passes: which layers each takes, and how often it goes backward.
    Raises where the step has changed a parameter all the same."""
    optimizer = paro.torch.Optimizer(torch.optim.SGD, model, lr=1.0)
    before = [parameter.detach().full_tensor().clone() for parameter in model.parameters()]
    for index, (which, times) in enumerate(passes):
        with paro.torch.microbatch(model, last=index + 1 == len(passes)):
            for _ in range(times):
                model(torch.ones(1, 4), which).sum().backward()
    text = raised_by([("step", optimizer.step)])["step"]
    optimizer.zero_grad()
    after = [parameter.detach().full_tensor() for parameter in model.parameters()]
    assert text.startswith("nothing") or all(map(torch.equal, before, after)), text
    return text


class UnitsThatDiffer(unittest.TestCase):
    """What would be summed without an error is told before a step changes anything."""

    def assert_reported(self, run: Callable[[], dict[str, str]], *parts: str) -> None:
        for found in run_ranks([2, 2], run, backend="gloo"):
            for name, text in found.items():
                for part in (*parts, "Nothing was changed"):
                    self.assertIn(part, text, name)

    def test_parameters_of_a_unit_that_ranks_of_a_group_do_not_all_use(self) -> None:
        def run() -> dict[str, str]:
            mesh = paro.torch.init_mesh("cpu", 2)
            other = [1] if dist.get_rank() == 1 else [0]
            return {
                strategy: step_with(Chosen(mesh, strategy, apart=False), [(other, 1)])
                for strategy in ("IIG", "NIG", "IGG", "GGG", "III")
            }

        self.assert_reported(
            run, "gradients of layers.0.weight, head.weight of unit Chosen in pass 1 on rank",
            "gradients of layers.1.weight, head.weight of unit Chosen in pass 1 on rank 1", "with weight zero",
        )

    def test_units_that_only_some_ranks_of_a_group_call(self) -> None:
        def run() -> dict[str, str]:
            mesh = paro.torch.init_mesh("cpu", 2)
            own = [1] if dist.get_rank() == 3 else [0]
            return {
                strategy: step_with(Chosen(mesh, strategy, apart=True), [(own, 1)])
                for strategy in ("IIG", "IGG", "GGG", "III")
            }

        self.assert_reported(run, "a gather of unit layers.0 in pass 1 on rank", "a gather of unit layers.1 in pass 1 on rank 3")

    def test_horing_finds_reductions_of_other_sizes_and_all_ranks_hear_of_them(self) -> None:
        def run(strategy: str) -> str:
            model = Chosen(paro.torch.init_mesh("cpu", 2), strategy, apart=False)
            optimizer = paro.torch.Optimizer(torch.optim.SGD, model, lr=1.0)

            def step() -> None:
                model(torch.ones(1, 4), [0, 1] if dist.get_rank() == 1 else [0]).sum().backward()
                optimizer.step()

            return raised_by([("step", step)])["step"]

        for strategy in ("IIG", "GGG"):
            for text in run_ranks([2, 2], run, strategy):
                self.assertIn("gradients of layers.0.weight, head.weight of unit Chosen in pass 1 on rank", text)
                self.assertIn("gradients of layers.0.weight, layers.1.weight, head.weight of unit Chosen in pass 1 on rank 1", text)

    def test_horing_finds_at_once_what_calls_of_one_size_are_for(self) -> None:
        def run(gathers_again: bool) -> str:
            model = Chosen(paro.torch.init_mesh("cpu", 2), "IIG", apart=True)
            optimizer = paro.torch.Optimizer(torch.optim.SGD, model, lr=1.0)
            odd = dist.get_rank() == 1

            def step() -> None:
                out = model(torch.ones(1, 4), [1] if odd and not gathers_again else [0])
                if odd and gathers_again:  # where the others gather for the backward pass, and then reduce
                    out = model(torch.ones(1, 4), [0])
                out.sum().backward()
                optimizer.step()

            return raised_by([("step", step)])["step"]

        gather = "a gather of unit {} in pass 1 on rank"
        for gathers_again, reported in (
            (False, (gather.format("layers.0"), gather.format("layers.1"), "another label")),
            (True, (gather.format("layers.0"), "gradients of head.weight of unit Chosen", "in another call")),
        ):
            for rank, text in enumerate(run_ranks([2, 2], run, gathers_again)):
                # Ranks 2 and 3 wait in another group, and are told what the calls were.
                for part in reported[: 3 if rank < 2 else 2]:
                    self.assertIn(part, text, f"rank {rank}")
                self.assertNotIn("circle", text)  # which is found at the deadline

    def test_a_second_backward_pass_of_one_group_alone(self) -> None:
        def run() -> dict[str, str]:
            mesh = paro.torch.init_mesh("cpu", 2)
            times = 1 + mesh.get_local_rank(0)
            found = {}
            for strategy in ("IIG", "IGG", "NIG", "ING"):
                model = Chosen(mesh, strategy, apart=True)
                found[strategy] = step_with(model, [([0, 1], times), ([0, 1], times)])
            return found

        self.assert_reported(
            run, "had another backward pass in microbatch(last=True), pass 2 of the step",
            "on ranks 2, 3, and none on ranks 0, 1",
        )

    def test_a_factor_that_ranks_or_groups_have_otherwise_is_told(self) -> None:
        def run(between: bool) -> dict[str, str]:
            mesh = paro.torch.init_mesh("cpu", 2)
            found = {}
            for strategy in ("IIG", "GGG", "III"):
                model: Any = Chosen(mesh, strategy, apart=True)
                layer: Any = model.layers[1]
                for unit in (model, layer):
                    unit.set_force_sum_reduction_for_comms(True)  # gloo does not multiply
                    unit.set_gradient_divide_factor(2)
                if dist.get_rank() in ((2, 3) if between else (2,)):
                    layer.set_gradient_divide_factor(4)
                found[strategy] = step_with(model, [([0], 1)])  # ranks have them also where they use no such unit
            return found

        for between, ranks in ((True, "ranks 0, 1; 4.0 on ranks 2, 3"), (False, "ranks 0, 1, 3; 4.0 on rank 2")):
            self.assert_reported(
                lambda: run(between),
                f"different factors of set_gradient_divide_factor for unit layers.1: 2.0 on {ranks}",
            )

    def test_a_second_backward_pass_of_all_ranks_counts(self) -> None:
        def run(strategy: str) -> Any:
            mesh = paro.torch.init_mesh("cpu", 2)
            model = Chosen(mesh, strategy, apart=True)
            optimizer = paro.torch.Optimizer(torch.optim.SGD, model, lr=1.0)
            before = model.head.weight.detach().full_tensor().clone()
            with paro.torch.microbatch(model, last=True):
                for _ in range(2):
                    model(torch.ones(1, 4), [0]).sum().backward()
            optimizer.step()
            return (before - model.head.weight.detach().full_tensor())[0].tolist()

        torch.manual_seed(1)
        once = nn.Linear(4, 4, bias=False)(torch.ones(1, 4))[0].mul(2)
        for strategy in ("IIG", "IGG"):
            for twice in run_ranks([2, 2], run, strategy, backend="gloo"):
                self.assertTrue(torch.allclose(torch.tensor(twice), once, atol=1e-6))


class TorchsOwn(unittest.TestCase):
    def test_functions_of_torch_that_find_no_masters_name_those_that_do(self) -> None:
        def calls(mesh: DeviceMesh, strategy: str) -> list[tuple[str, Callable[[], Any]]]:
            model = Chosen(mesh, strategy, apart=False)
            optimizer = paro.torch.Optimizer(torch.optim.AdamW, model)
            scaler = torch.amp.GradScaler("cpu")

            def step() -> None:
                scaler.scale(model(torch.ones(1, 4), [0, 1]).sum()).backward()
                scaler.step(optimizer)

            def load() -> None:  # what GGG's own give
                state = get_optimizer_state_dict(model, optimizer) if strategy == "GGG" else {"state": {}, "param_groups": []}
                set_optimizer_state_dict(model, optimizer, state)

            return [
                (f"{strategy} both", lambda: len(get_state_dict(model, optimizer))),
                (f"{strategy} get", lambda: len(get_optimizer_state_dict(model, optimizer))),
                (f"{strategy} set", load),
                (f"{strategy} scaler", step),
                (f"{strategy} own", lambda: optimizer.load_state_dict(optimizer.state_dict())),
            ]

        def run() -> dict[str, str]:
            mesh = paro.torch.init_mesh("cpu", 2)
            return raised_by([*calls(mesh, "IIG"), *calls(mesh, "GGG")])

        for found in run_ranks([2, 2], run, backend="gloo"):
            for name, text in found.items():
                expected = "nothing was raised"
                if name.startswith("IIG") and "own" not in name:
                    expected = "paro.torch.GradScaler" if "scaler" in name else "paro.torch.get_state_dict(model, optimizer)"
                self.assertIn(expected, text, name)


    def test_a_model_s_state_dict_needs_no_masters_and_they_follow_it(self) -> None:
        def run() -> tuple[bool, bool]:
            model = Chosen(paro.torch.init_mesh("cpu", 2), "IIG", apart=True)
            optimizer = paro.torch.Optimizer(torch.optim.AdamW, model)
            model(torch.ones(1, 4), [0, 1]).sum().backward()
            optimizer.step()
            state, own = get_model_state_dict(model), model.state_dict()
            same = list(state) == list(own) and all(torch.equal(state[n].to_local(), own[n].to_local()) for n in own)
            masters = [(p, optimizer.master_of(p).clone()) for p in model.parameters()]
            set_model_state_dict(model, {name: value * 2 for name, value in state.items()})
            return same, all(torch.equal(optimizer.master_of(p), was * 2) for p, was in masters)

        self.assertEqual(run_ranks([2, 2], run, backend="gloo"), [(True, True)] * 4)


class Planner(unittest.TestCase):
    def test_the_bytes_of_a_parameter_follow_its_type(self) -> None:
        half, mixed = nn.Linear(4, 4, bias=False, dtype=torch.bfloat16), nn.ModuleList([nn.Linear(4, 4, bias=False)])
        mixed.append(nn.Linear(4, 4, bias=False, dtype=torch.bfloat16).requires_grad_(False))

        def planned(model: nn.Module) -> Any:
            answer = plan({"units": _units_of(model, 1), "nodes": 1, "ranks_per_node": 1})
            return answer["request"]["bytes_per_parameter"]

        self.assertEqual(planned(half), [2, 2, 12])
        self.assertEqual(planned(half.float()), [4, 4, 8])
        self.assertEqual(planned(half.double()), [8, 8, 16])
        self.assertEqual(planned(mixed), [3, 4, 8])

    def test_the_planner_is_given_the_bytes_of_a_parameter(self) -> None:
        def run(input: Any) -> Any:
            requested: dict[str, Any] = {}

            def answer(request: dict[str, Any]) -> dict[str, Any]:
                requested.update(request)
                return {"ranking": ["GGG"], "recommended": "GGG", "why": ""}

            planning.plan = answer
            planning.measure_links = lambda _: planning.Links(1, 1, 0, 0, 0)
            model = Model().to(torch.bfloat16)
            paro.torch.choose_strategy(model, paro.torch.init_mesh("cpu", 1), bytes_per_parameter=input)
            return [each.get("element_bytes") for each in requested["units"]], requested.get("bytes")

        self.assertEqual(run_ranks([1], run, None, backend="gloo"), [([2], None)])
        self.assertEqual(run_ranks([1], run, (2, 4, 8), backend="gloo"), [([None], "2,4,8")])

    def test_the_planner_is_given_each_link_under_its_own_key(self) -> None:
        links = planning.Links(3e9, 2e8, 0.001, 0.002, 0.0035)
        of_links = {
            "intra": "3000000000B", "inter": "200000000B", "intra_call": "0.001000000s",
            "inter_call": "0.002000000s", "world_call": "0.003500000s",
        }  # fmt: skip
        self.assertEqual(planning.request_of(links, "cuda"), of_links)
        self.assertEqual(planning.request_of(links, "cpu"), {**of_links, "no_overlap": True, "prefetch": 0})

    def test_each_link_is_measured_on_its_dimension_and_rates_are_without_the_call(self) -> None:
        calls = {"intra": 0.25, "inter": 0.5, "world": 0.75}

        def run() -> Any:
            planning._call_seconds = lambda mesh: calls[mesh.mesh_dim_names[0]]  # type: ignore[index]
            mesh = paro.torch.init_mesh("cpu", 1)
            taken = iter((0.5, 2.5))  # of one byte, and of all of them
            planning._median_seconds = lambda *_: next(taken)
            return paro.torch.measure_links(mesh)

        half = planning._MEASURED_BYTES / 2  # what a rank receives of a gather over two
        for links in run_ranks([1, 1], run, backend="gloo"):
            self.assertEqual(links, planning.Links(planning._VERY_FAST, half / 2.0, *calls.values()))


class Example(unittest.TestCase):
    def test_wrong_arguments_of_the_example_are_one_line(self) -> None:
        spec = importlib.util.spec_from_file_location("train", EXAMPLE)
        assert spec is not None and spec.loader is not None
        train = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(train)
        for words, part in (
            (["--steps", "0"], "--steps 0: takes a number above 0"),
            (["--accumulation", "0"], "--accumulation 0: takes"),
            (["--group-size", "-1"], "--group-size -1: takes"),
            (["--memory", "nan"], "--memory nan: takes"),
            (["--width", "10"], "--width 10: takes a multiple of the 4 heads"),
            (["--strategy", "iik"], "--strategy IIK: takes NNN, NNI"),
            *([] if torch.cuda.is_available() else [(["--backend", "nccl"], "--backend nccl: torch finds no GPU")]),
        ):
            with self.subTest(words), mock.patch("sys.argv", ["train.py", *words]), mock.patch("sys.stderr") as reported:
                with self.assertRaises(SystemExit):
                    train.parsed()
                self.assertIn(part, "".join(call.args[0] for call in reported.write.call_args_list))
        with mock.patch("sys.argv", ["train.py", "--strategy", "nng"]):
            self.assertEqual(train.parsed().strategy, "NNG")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
