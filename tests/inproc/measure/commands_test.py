#!/usr/bin/env python3
"""What the measuring commands refuse before they measure, and what they lack."""
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

TOOLS = pathlib.Path(__file__).parents[3] / "tools"
BENCH = TOOLS / "bench"


class Arguments(unittest.TestCase):
    def assert_refused(self, words, *arguments):
        answer = subprocess.run([sys.executable, BENCH / "compare", *arguments], capture_output=True, text=True)
        self.assertEqual((answer.returncode, answer.stdout), (2, ""), answer.stderr)
        self.assertIn(words, answer.stderr)

    def test_options_that_cannot_work_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            build, empty = pathlib.Path(folder, "build"), pathlib.Path(folder, "empty")
            (build / "tools").mkdir(parents=True)
            empty.mkdir()
            for name in ("horing", "all_gather_perf", "reduce_scatter_perf", "all_reduce_perf", "plugin_perf"):
                (build / "tools" / name).write_text("#!/bin/sh\n")
                (build / "tools" / name).chmod(0o755)
            both = ("--build", build, "--against", build)
            self.assert_refused("empty/tools lacks horing, all_gather_perf", "--build", build, "--against", empty)
            self.assert_refused("empty/tools lacks horing, all_gather_perf", "--build", empty, "--against", build)
            self.assert_refused("build/plugin lacks libnccl-net-horing.so", *both, "--plugin")
            self.assert_refused("CollNet runs between nodes", *both, "--plugin", "--links", "one_node")
            self.assert_refused("--links ether: takes some of cluster, unlimited", *both, "--links", "ether")
            self.assert_refused("--sizes 4X", *both, "--sizes", "4X")
            self.assert_refused("--collectives sum", *both, "--collectives", "sum")
            self.assert_refused("take whole numbers from 1", *both, "--rounds", "-1")
            self.assert_refused("--report: ", *both, "--report", build / "tools" / "horing" / "x")
            self.assert_refused("--rows does not go with --against", *both, "--rows", "page")
            self.assert_refused("--scenarios x: takes some of main", "--build", build, "--scenarios", "x")
            self.assert_refused("--calls goes with --against", "--build", build, "--calls", "5")


class Gains(unittest.TestCase):
    """It asks a build for what its cases run."""

    def assert_refused(self, words, cases, programs):
        with tempfile.TemporaryDirectory() as build:
            tools = pathlib.Path(build, "tools")
            tools.mkdir()
            for name in programs:
                (tools / name).touch(mode=0o755)
            answer = subprocess.run([sys.executable, BENCH / "gains", "--build", build, "--cases", cases, "--out", f"{build}/out",
                                     "--torch-python", "/no/such/python"], capture_output=True, text=True)
        self.assertEqual((answer.returncode, answer.stdout), (2, ""), answer.stderr)
        self.assertIn(words, answer.stderr)

    def test_a_case_of_torch_asks_for_what_it_runs_alone(self):
        for cases, programs in (("fsdp", ("horing", "paro")), ("torch", ("horing",)), ("fsdp,torch", ("horing", "paro"))):
            self.assert_refused("--torch-python /no/such/python has no torch", cases, programs)

    def test_what_a_case_lacks_of_a_build_is_named(self):
        self.assert_refused("lacks paro:", "fsdp", ("horing", "paro-bench"))
        self.assert_refused("lacks paro-bench:", "7b", ("horing", "paro"))
        self.assert_refused("lacks paro-bench:", "scaling,torch", ("horing",))
        self.assert_refused("lacks horing:", "torch", ())


class WithoutMatplotlib(unittest.TestCase):
    """-S leaves installed packages out."""

    def run_python(self, *arguments):
        return subprocess.run([sys.executable, "-S", *arguments], capture_output=True, text=True, cwd=TOOLS)

    def test_commands_say_so_before_they_measure(self):
        with tempfile.TemporaryDirectory() as build:
            tools = pathlib.Path(build, "tools")
            tools.mkdir()
            for name in ("horing", "paro", "paro-bench", "train_gpt"):
                (tools / name).write_text("#!/bin/sh\necho it measures; exit 9\n")
                (tools / name).chmod(0o755)
            out = pathlib.Path(build, "out")
            for command in (
                [TOOLS / "results", "--folder", build],
                [BENCH / "convergence", "--out", out, "--build", build],
            ):
                answer = self.run_python(*command)
                self.assertEqual((answer.returncode, answer.stdout), (2, ""), answer.stderr)
                self.assertIn("apt-get install python3-matplotlib", answer.stderr)
            answer = self.run_python(BENCH / "gains", "--out", out, "--build", build)
            self.assertEqual(answer.returncode, 1, answer.stderr)
            self.assertIn("exit status 9:\nit measures", answer.stderr)

    def test_the_quickstart_draws_by_itself(self):
        program = ("import demo_picture, demo_training; "
                   "lines = {'flat ring': [(64, 5.0), (1024, 70.0)]}; "
                   "print(demo_picture.draw('title', [('all_gather', lines)], str)); "
                   "print(demo_training.bars([{'strategy': 'IIG', 'step_s': 1.0, 'compute_s': 0.5, 'exposed_s': 0.2, "
                   "'idle_s': 0.1, 'update_s': 0.1, 'hooks_s': 0.1}], 'bars'))")
        answer = self.run_python("-B", "-c", f"import sys; sys.path[:0] = ['', 'bench']; {program}")
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        for picture_text in answer.stdout.split("</svg>")[:2]:
            xml.etree.ElementTree.fromstring(picture_text.strip() + "</svg>")


if __name__ == "__main__":
    unittest.main()
