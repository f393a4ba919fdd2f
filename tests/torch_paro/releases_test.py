"""What paro.torch takes from torch that torch does not promise, and the releases that have it: others are
refused when paro.torch is imported."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import re
import runpy
import subprocess
import sys
import unittest
from unittest import mock

import torch
from torch.distributed.fsdp import FSDPModule

from paro.torch import fsdp_private
from ranks import SECONDS

WORKS = "paro.torch works with torch 2.11 to 2.14, and this is torch"
STATES = "_fsdp_param_groups or _fsdp_param_group"
NAMES = {kind: {*needed} for (_, kind), needed in fsdp_private.NEEDED.items()}


class Private(unittest.TestCase):
    """A release that changes it fails here."""

    def test_a_mesh_is_flattened_by_a_private_method(self) -> None:
        from torch.distributed.device_mesh import DeviceMesh

        self.assertIn("mesh_dim_name", inspect.signature(DeviceMesh._flatten).parameters)

    def test_a_scaler_keeps_overflows_by_optimizer_and_device(self) -> None:
        scaler = torch.amp.GradScaler("cpu")
        self.assertIn("found_inf_per_device", scaler._per_optimizer_states[0])

    def test_fsdp_runs_the_hooks_of_sharded_parameters(self) -> None:
        from torch.distributed.fsdp._fully_shard import _fsdp_collectives

        self.assertIn("_post_accumulate_grad_hooks", inspect.getsource(_fsdp_collectives.foreach_reduce))

    def test_fsdp_has_the_switches_that_strategies_need(self) -> None:
        for name in ("set_reshard_after_backward", "set_requires_gradient_sync", "set_requires_all_reduce"):
            self.assertIn("recurse", inspect.signature(getattr(FSDPModule, name)).parameters)


class Releases(unittest.TestCase):
    def imported(self, version: str, classes: dict[str, type]) -> None:
        """Runs fsdp_private.py as an import does, with these alone of the classes that it looks at."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.object(torch, "__version__", version))
            for module, name in fsdp_private.NEEDED:
                within = importlib.import_module(f"torch.distributed.fsdp._fully_shard.{module}")
                stack.enter_context(mock.patch.object(within, name))
                delattr(within, name)
                if name in classes:
                    setattr(within, name, classes[name])
            runpy.run_path(fsdp_private.__file__)

    def refused(self, version: str, classes: dict[str, type]) -> str:
        with self.assertRaisesRegex(ImportError, f"{WORKS} {re.escape(version)}") as found:
            self.imported(version, classes)
        return str(found.exception)

    def having(self, names: dict[str, set[str]]) -> dict[str, type]:
        return {kind: type(kind, (), dict.fromkeys(within)) for kind, within in names.items()}

    def test_a_release_is_refused_by_the_names_that_its_fsdp2_lacks(self) -> None:
        for groups in STATES.split(" or "):
            names = NAMES | {"FSDPState": NAMES["FSDPState"] - {STATES} | {groups}}
            self.imported("2.12.0", self.having(names))
            for kind, within in names.items():
                for lacking in within:
                    with self.subTest(f"{kind}.{lacking}"):
                        text = self.refused("2.12.0", self.having(names | {kind: within - {lacking}}))
                        expected = STATES if lacking == groups else lacking
                        self.assertIn(f"whose FSDP2 lacks {kind}.{expected}; install another one", text)

    def test_all_that_a_release_lacks_is_named(self) -> None:
        names = NAMES | {"FSDPState": set(), "FSDPParamGroup": NAMES["FSDPParamGroup"] - {"unshard"}}
        del names["FSDPModule"]
        self.assertIn(
            "lacks FSDPModule._get_fsdp_state, FSDPState._auto_reshard_after_forward, "
            f"FSDPState.{STATES}, FSDPState._is_root, FSDPParamGroup.unshard; ",
            self.refused("2.13.0", self.having(names)),
        )

    def test_a_release_is_refused_by_its_number(self) -> None:
        here = fsdp_private.fsdp_classes()
        for version in ("2.11.0a0+git", "2.14.9+cu130", torch.__version__):
            self.imported(version, here)
        for version in ("2.10.0", "2.15.0", "3.0.0+cpu"):
            self.assertIn('pip install "torch>=2.11,<2.15"', self.refused(version, here))

    def test_the_number_is_looked_at_before_anything_is_taken(self) -> None:
        program = "import torch.distributed.fsdp as f, torch; torch.__version__ = '2.5.1'; del f.FSDPModule; import paro.torch"
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS)
        self.assertIn(f"ImportError: {WORKS} 2.5.1", ran.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
