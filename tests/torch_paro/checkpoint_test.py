"""What distributed checkpoints save under one strategy loads under any other, in other worlds and in
plain FSDP2, bit for bit."""

from __future__ import annotations

import copy
import io
import math
import sys
import tempfile
import threading
import unittest
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

import paro.torch
from paro.torch.checkpoint_tensor import rectangles
from ranks import run_ranks
from training import FULL, whole

LR = 1e-2


class Odd(nn.Module):
    """Tensors of 3, 5 and 7 rows, which no world here divides; one of three dimensions, one frozen."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(17)
        self.three = nn.Linear(4, 3)
        self.five = nn.Linear(3, 5)
        self.seven = nn.Parameter(torch.randn(7, 5, 3))
        self.frozen = nn.Parameter(torch.randn(3, 2), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = torch.einsum("bi,rij->bj", torch.tanh(self.five(self.three(x))), self.seven)
        return out.square().mean() + self.frozen.sum()


def made(strategy: str, group_size: int, dtype: torch.dtype = torch.float32) -> Any:
    mesh = paro.torch.init_mesh("cpu", group_size)
    model = Odd().to(dtype)
    paro.torch.fully_shard(model.three, mesh=mesh, strategy=strategy)
    paro.torch.fully_shard(model, mesh=mesh, strategy=strategy)
    return model, paro.torch.Optimizer(torch.optim.AdamW, model, lr=LR)


def steps(model: Any, optimizer: Any, count: int) -> None:
    for step in range(count):
        x = torch.randn(6, 4, generator=torch.Generator().manual_seed(step))
        model(x.to(next(model.parameters()).dtype)).backward()
        optimizer.step()
        optimizer.zero_grad()


def state_of(model: Any, optimizer: Any) -> dict[str, Any]:
    ours = isinstance(optimizer, paro.torch.Optimizer)
    get: Any = paro.torch.get_state_dict if ours else get_state_dict
    model_state, optimizer_state = get(model, optimizer)
    return {"model": model_state, "optimizer": optimizer_state}


def save(path: str, strategy: str, group_size: int, dtype: torch.dtype = torch.float32) -> None:
    model, optimizer = made(strategy, group_size, dtype)
    steps(model, optimizer, 2)
    optimizer.param_groups[0]["lr"] = 0.003
    dcp.save(state_of(model, optimizer), checkpoint_id=path)


def load_and_save(path: str, strategy: str, group_size: int, dtype: torch.dtype = torch.float32) -> Any:
    """Into a model with other values and an optimizer without state; then saved again as it is."""
    model, optimizer = made(strategy, group_size, dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.to_local().fill_(9.0)  # type: ignore[attr-defined]
    state = state_of(model, optimizer)
    dcp.load(state, checkpoint_id=path)
    paro.torch.set_state_dict(
        model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    dcp.save(state_of(model, optimizer), checkpoint_id=path + ".again")
    values = {name: whole(p).float().tolist() for name, p in model.named_parameters()}
    return optimizer.param_groups[0]["lr"], values


def plain(path: str, dtype: torch.dtype) -> Any:
    model = Odd().to(dtype)
    fully_shard(model.three)
    fully_shard(model)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=LR)
    state = state_of(model, optimizer)
    dcp.load(state, checkpoint_id=path)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    dcp.save(state_of(model, optimizer), checkpoint_id=path + ".again")
    return None


def names_under_wrappers(path: str) -> dict[str, Any]:
    """Of state dicts. What has activation checkpoints trains, and is saved."""
    mesh = paro.torch.init_mesh("cpu", 2)
    names = {}
    for wrapper in ("none", "compiled block", "compiled model", "activation checkpoints"):
        model: Any = Odd()
        if wrapper == "compiled block":
            model.three = torch.compile(model.three)
        if wrapper == "activation checkpoints":
            model.three = checkpoint_wrapper(model.three)
        paro.torch.fully_shard(model.three, mesh=mesh, strategy="IIG")
        paro.torch.fully_shard(model, mesh=mesh, strategy="IIG")
        if wrapper == "compiled model":
            model = torch.compile(model)
        optimizer = paro.torch.Optimizer(torch.optim.AdamW, model, lr=LR)
        if wrapper == "activation checkpoints":
            steps(model, optimizer, 2)
            dcp.save(state_of(model, optimizer), checkpoint_id=path)
        state = state_of(model, optimizer)
        groups = [group["params"] for group in state["optimizer"]["param_groups"]]
        names[wrapper] = [list(state["model"]), list(state["optimizer"]["state"]), groups]
    return names


class Counting(nn.Module):
    def __init__(self, extra: Any, inner: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(5))
        self.extra = extra
        if inner:
            self.inner = Counting(extra, False)

    def get_extra_state(self) -> Any:
        return copy.copy(self.extra)

    def set_extra_state(self, state: Any) -> None:
        self.extra = state


def one_more_step(path: str) -> dict[str, bool]:
    """By strategy: whether it is the same after a load as without."""
    found = {}
    for strategy in ("IIG", "GGG"):
        model, optimizer = made(strategy, 1)
        steps(model, optimizer, 2)
        dcp.save(state_of(model, optimizer), checkpoint_id=path + strategy)
        again, loaded = made(strategy, 1)
        with torch.no_grad():
            again(torch.ones(1, 4))  # leaves weights gathered, which a load makes old
        state = state_of(again, loaded)
        dcp.load(state, checkpoint_id=path + strategy)
        paro.torch.set_state_dict(again, loaded, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        for each in ((model, optimizer), (again, loaded)):
            steps(*each, 1)
        pairs = zip(model.parameters(), again.parameters(), strict=True)
        found[strategy] = all(torch.equal(whole(a), whole(b)) for a, b in pairs)
    return found


class Held(dcp.FileSystemWriter):
    """Writes once the gate is open."""

    def __init__(self, path: str, gate: threading.Event) -> None:
        super().__init__(path)
        self.gate = gate

    def write_data(self, plan: Any, planner: Any) -> Any:
        self.gate.wait()
        return super().write_data(plan, planner)


def saved_in_the_background(path: str) -> None:
    """Two steps, saved as they are and in the background, while three more steps are made."""
    group = dist.new_group()
    for stager in (None, DefaultStager(StagingOptions(False, False, False, False))):
        model, optimizer = made("IIG", 1)
        steps(model, optimizer, 2)
        state, name, gate = state_of(model, optimizer), f"{path}.{stager is None}", threading.Event()
        dcp.save(state, checkpoint_id=f"{name}.now")
        saving: Any = dcp.async_save(
            state, storage_writer=Held(name, gate), process_group=group, async_stager=stager)
        steps(model, optimizer, 3)
        gate.set()
        saving.result()


def content(path: str) -> dict[str, Any]:
    """The whole of a checkpoint, in one process."""
    state: dict[str, Any] = {}
    reader = dcp.FileSystemReader(path)
    for name, kind in reader.read_metadata().state_dict_metadata.items():
        state[name] = torch.empty(kind.size, dtype=kind.properties.dtype) if hasattr(kind, "size") else None
    tensors = {name: each for name, each in state.items() if each is not None}
    dcp.load(tensors, storage_reader=reader, no_dist=True)
    return tensors


class Checkpoints(unittest.TestCase):
    def assert_same(self, path: str, other: str) -> None:
        one, two = content(path), content(other)
        self.assertEqual(sorted(one), sorted(two))
        for name, tensor in one.items():
            self.assertTrue(torch.equal(tensor, two[name]), name)

    def test_any_strategy_loads_what_another_saved(self) -> None:
        for name in ("IIG", "NIG", "GGG", "III") if FULL else ("IIG", "GGG"):
            with tempfile.TemporaryDirectory() as folder:
                path = f"{folder}/saved"
                run_ranks([3, 3], save, path, name, 3, backend="gloo")
                for nodes, other, group_size in (
                    ([3, 3], "IGG", 3), ([2, 2], "IIG", 2), ([2, 2], "NNN", 2), ([4], "GNG", 4), ([1], "ING", 1),
                    ([5], "IIG", 1),
                ):
                    with self.subTest(f"{name} to {other} on {nodes}"):
                        results = run_ranks(nodes, load_and_save, path, other, group_size, backend="gloo")
                        self.assert_same(path, path + ".again")
                        saved = content(path)
                        for rate, parameters in results:
                            self.assertEqual(rate, 0.003)
                            for parameter, value in parameters.items():
                                self.assertTrue(value == saved[f"model.{parameter}"].tolist(), parameter)

    def test_plain_fsdp2_loads_it_and_the_way_back(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/saved"
            run_ranks([3, 3], save, path, "IIG", 3, backend="gloo")
            run_ranks([2, 2], plain, path, torch.float32, backend="gloo")
            self.assert_same(path, path + ".again")
            run_ranks([3, 3], load_and_save, path + ".again", "IIG", 3, backend="gloo")
            self.assert_same(path, path + ".again.again")

    def test_a_step_after_a_load_is_that_of_a_run_without_one(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for found in run_ranks([1, 1], one_more_step, f"{folder}/saved", backend="gloo"):
                self.assertEqual(found, {"IIG": True, "GGG": True})

    def test_a_save_in_the_background_has_the_values_of_its_call(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/saved"
            run_ranks([1, 1], saved_in_the_background, path)
            for name in (f"{path}.True", f"{path}.False"):  # staged by the writer, and by what async_save takes
                self.assert_same(name, f"{name}.now")

    def test_a_state_dict_before_the_first_step_changes_no_step(self) -> None:
        def run(look: bool) -> Any:
            mesh = paro.torch.init_mesh("cpu", 2)
            found = []
            for kind, settings in (
                (torch.optim.Adam, {"weight_decay": 0.1}), (torch.optim.SGD, {"momentum": 0.9, "dampening": 0.5}),
                (torch.optim.NAdam, {}), (torch.optim.Rprop, {}),
            ):
                model: Any = paro.torch.fully_shard(Odd(), mesh=mesh, strategy="IIG")
                optimizer = paro.torch.Optimizer(kind, model, lr=LR, **settings)
                if look:
                    paro.torch.get_state_dict(model, optimizer)
                steps(model, optimizer, 3)
                found.append([whole(p).tolist() for p in model.parameters()])
            return found

        self.assertEqual(*(run_ranks([2, 2], run, look, backend="gloo") for look in (False, True)))

    def test_a_model_in_bf16_keeps_its_masters(self) -> None:
        half = torch.bfloat16
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/saved"
            run_ranks([2, 2], save, path, "GGG", 2, half, backend="gloo")
            saved = content(path)
            self.assertEqual(saved["model.seven"].dtype, torch.float32)
            self.assertFalse(torch.equal(saved["model.seven"], saved["model.seven"].to(half).float()))
            results = run_ranks([3, 3], load_and_save, path, "IIG", 3, half, backend="gloo")
            self.assert_same(path, path + ".again")
            for _, parameters in results:
                self.assertEqual(parameters["seven"], saved["model.seven"].to(half).float().tolist())
            run_ranks([2, 2], plain, path, half, backend="gloo")  # which casts

    def test_names_are_those_of_the_model_without_wrappers(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/saved"
            torch.compile(nn.Linear(1, 1))  # imports much, once for all ranks
            for names in run_ranks([2, 2], names_under_wrappers, path, backend="gloo"):
                for wrapper, found in names.items():
                    self.assertEqual(found, names["none"], wrapper)
            # Saved with activation checkpoints: a run without them goes on, and plain FSDP2 does.
            run_ranks([1, 1], load_and_save, path, "IIG", 1, backend="gloo")
            self.assert_same(path, path + ".again")
            run_ranks([2], plain, path, torch.float32, backend="gloo")
            self.assert_same(path, path + ".again")

    def test_extra_state_of_a_module_is_saved_and_given_back(self) -> None:
        def run(path: str) -> Any:
            mesh = paro.torch.init_mesh("cpu", 2)
            found = []
            for extra in ({"count": 5}, torch.tensor([5])):
                model = Counting(extra)
                counting = model.inner
                model.inner = checkpoint_wrapper(counting)
                for module in (model.inner, model):
                    paro.torch.fully_shard(module, mesh=mesh, strategy="IIG")
                optimizer = paro.torch.Optimizer(torch.optim.AdamW, model, lr=LR)
                state = state_of(model, optimizer)
                dcp.save(state, checkpoint_id=path)
                model.extra = counting.extra = {"count": 0} if isinstance(extra, dict) else torch.tensor([0])
                state = state_of(model, optimizer)
                dcp.load(state, checkpoint_id=path)
                paro.torch.set_state_dict(
                    model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
                for each in (model.extra, counting.extra):
                    found.append(int(each["count"] if isinstance(each, dict) else each))
            return found

        with tempfile.TemporaryDirectory() as folder:
            for found in run_ranks([2, 2], run, f"{folder}/saved", backend="gloo"):
                self.assertEqual(found, [5, 5, 5, 5])

    def test_whole_tensors_are_taken_by_parts_and_others_refused(self) -> None:
        def run() -> Any:
            return [take(strategy) for strategy in ("IIG", "GGG")]

        def take(strategy: str) -> Any:
            model, optimizer = made(strategy, 2)
            steps(model, optimizer, 1)
            generator = torch.Generator().manual_seed(3)
            state = state_of(model, optimizer)
            full = {name: torch.rand(each.shape, generator=generator) for name, each in state["model"].items()}
            states = {
                name: {
                    key: torch.rand(each.shape, generator=generator) if each.ndim else each
                    for key, each in state["optimizer"]["state"][name].items()
                }
                for name in sorted(state["optimizer"]["state"])
            }
            optim = {"state": states, "param_groups": state["optimizer"]["param_groups"]}
            paro.torch.set_state_dict(model, optimizer, model_state_dict=full, optim_state_dict=optim)
            equal = all(torch.equal(whole(p), full[name]) for name, p in model.named_parameters())
            with tempfile.TemporaryDirectory() as folder:
                folders = [folder]
                dist.broadcast_object_list(folders, 0)
                dcp.save(state_of(model, optimizer), checkpoint_id=folders[0])
                saved = content(folders[0])
                dist.barrier()
            same = all(
                torch.equal(saved[f"optimizer.state.{name}.{key}"], each)
                for name, of in states.items() for key, each in of.items()
            )
            try:
                full["seven"] = torch.zeros(7)
                paro.torch.set_state_dict(model, optimizer, model_state_dict=full, optim_state_dict=optim)
            except ValueError as error:
                return equal, same, str(error)
            return equal, same, "nothing was raised"

        for results in run_ranks([2, 2], run, backend="gloo"):
            for equal, same, error in results:
                self.assertTrue(equal)
                self.assertTrue(same)
                self.assertIn("seven is a Tensor of shape (7,), not (7, 5, 3)", error)

    def test_a_plain_state_dict_is_torch_s_own(self) -> None:
        """torch.load reads it as it is called by default, and a program without paro.torch."""
        strategies = ("IIG", "ING", "III", "GGG", "NNN")

        def run() -> Any:
            found = {}
            for strategy in strategies:
                model, optimizer = made(strategy, 1)
                optimizer.step()
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                written = io.BytesIO()
                torch.save(state, written)
                written.seek(0)
                read = torch.load(written)["model"]["seven"].to_local()
                ours = b"paro" in written.getvalue()
                found[strategy] = (ours, torch.equal(read, state["model"]["seven"].to_local()))
            return found

        for found in run_ranks([1, 1], run, backend="gloo"):
            self.assertEqual(found, {name: (False, True) for name in strategies})

    def test_rectangles_cover_a_range_in_order(self) -> None:
        for shape in ((7,), (3, 4), (5, 1), (1, 6), (2, 3, 4), (3, 1, 2)):
            numbers = torch.arange(math.prod(shape)).view(shape)
            for first in range(numbers.numel() + 1):
                for last in range(first, numbers.numel() + 1):
                    found = []
                    for offsets, sizes in rectangles(shape, first, last):
                        part = numbers
                        for dimension, (offset, size) in enumerate(zip(offsets, sizes, strict=True)):
                            part = part.narrow(dimension, offset, size)
                        found += part.flatten().tolist()
                    self.assertEqual(found, list(range(first, last)), (shape, first, last))
                    self.assertLessEqual(len(rectangles(shape, first, last)), 2 * len(shape) - 1)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
