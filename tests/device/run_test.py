#!/usr/bin/env python3
"""usage: run_test.py [BUILD]: tests/device/run with parts of the test's own: what fails, what takes too long, what is
missing, no GPU. With BUILD, a build folder with tests: also the suite's folder (folder/make_folder.py), on the double."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE / "folder")]
# pylint: disable=wrong-import-position
import make_folder  # noqa: E402
from processes import wait_for_end  # noqa: E402

BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 and os.path.isdir(sys.argv[1]) else None
RUN = HERE / "run"
GPU = {"name": "gpu", "command": ["sh", "-c", "echo 'Some GPU, driver of CUDA 13.0'"], "seconds": 30, "decides": True}


def shell(name, text, **more):
    return {"name": name, "command": ["sh", "-c", text], "seconds": 30, **more}


class Suite(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.report = self.folder / "report.md"

    def run_parts(self, *parts, arguments=()):
        table = self.folder / "parts.json"
        table.write_text(json.dumps({"parts": list(parts)}))
        return subprocess.run([sys.executable, RUN, self.folder, "--out", self.report, "--parts", table, *arguments],
                              capture_output=True, text=True, timeout=120)

    def rows(self):
        """{part: result} of the report's table."""
        rows = re.findall(r"^\| (\S+) \| (.*) \| [\d.]+ \| `.*` \|$", self.report.read_text(), re.MULTILINE)
        return dict(rows)

    def test_a_failed_part_is_told_and_others_run(self):
        answer = self.run_parts(GPU, shell("broken", "echo why it broke; exit 3"), shell("after", "echo copy: 7 GB/s",
                                                                                         figures="GB/s"))
        self.assertEqual(answer.returncode, 1, answer.stderr)
        self.assertEqual(self.rows(), {"gpu": "ok", "broken": "FAILED: status 3", "after": "ok"})
        text = self.report.read_text()
        self.assertRegex(text, r"\d{4}-\d\d-\d\d \d\d:\d\d UTC")
        self.assertIn("3 parts, 1 failed", text)
        self.assertIn("    why it broke\n", text)
        self.assertIn("## after\n\n    copy: 7 GB/s\n", text)

    def test_the_report_says_what_was_shown_and_what_was_not(self):
        self.run_parts(GPU, shell("fine", "true", shows="copies are right"), shell("broken", "false", shows="sums"),
                       shell("absent", "true", needs=["no-such-program"], shows="no races"))
        self.assertIn("- fine: shown: copies are right\n- broken: NOT shown: sums\n- absent: NOT shown: no races\n",
                      self.report.read_text())

    def test_all_parts_of_the_suite_end_in_eight_minutes_and_say_what_they_show(self):
        parts = json.loads(RUN.with_name("parts.json").read_text())["parts"]
        self.assertLessEqual(sum(part["seconds"] for part in parts), 480)
        self.assertEqual([part["name"] for part in parts if not part.get("shows")], [])

    def test_all_parts_that_pass_give_status_zero(self):
        answer = self.run_parts(GPU, shell("fine", "true"))
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertIn("0 failed", self.report.read_text())
        self.assertEqual([path.name for path in self.folder.iterdir() if "report" in path.name], ["report.md"])

    def test_a_part_without_end_is_ended_with_its_children(self):
        started = self.folder / "pid"
        seconds = 1
        while not started.exists():  # a busy machine may not have started it in that time
            answer = self.run_parts(GPU, shell("hangs", f"(sleep 3600) & echo $! >{started}.new; "
                                               f"mv {started}.new {started}; wait", seconds=seconds),
                                    shell("after", "true"))
            self.assertEqual(answer.returncode, 1, answer.stderr)
            self.assertEqual(self.rows(), {"gpu": "ok", "hangs": f"FAILED: no end within {seconds} s", "after": "ok"})
            seconds *= 2
        wait_for_end(started.read_text().strip())

    def test_parts_beyond_the_time_for_all_fail(self):
        answer = self.run_parts(GPU, shell("hangs", "sleep 3600"), shell("late", "true"), arguments=["--seconds", "2"])
        self.assertEqual(answer.returncode, 1, answer.stderr)
        over = "FAILED: not run, the 2 s for all parts are over"
        self.assertRegex(self.rows()["hangs"], rf"^(FAILED: no end within \d s|{over})$")
        self.assertEqual(self.rows()["late"], over)

    def test_without_a_gpu_nothing_else_runs(self):
        answer = self.run_parts({**GPU, "command": ["sh", "-c", "echo no driver; exit 77"]},
                                shell("never", f"touch {self.folder}/ran"))
        self.assertEqual((answer.returncode, answer.stderr), (77, ""))
        self.assertIn("skipped: no driver", answer.stdout)
        self.assertFalse(self.report.exists() or (self.folder / "ran").exists())

    def test_what_is_not_installed_is_skipped_and_said(self):
        answer = self.run_parts(GPU, shell("tool", "exit 1", needs=["no-such-program"]),
                                shell("module", "exit 1", needs=[{"python": "import no_such_module"}]),
                                shell("itself", "echo not here; exit 77"),
                                shell("fine", "true", needs=["sh", {"python": "import sys"}]))
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertEqual(self.rows()["tool"], "skipped: no-such-program is not installed")
        self.assertTrue(self.rows()["module"].startswith("skipped: not here: import no_such_module"))
        self.assertEqual(self.rows()["itself"], "skipped: not here")
        self.assertEqual(self.rows()["fine"], "ok")

    def test_a_program_that_is_missing_fails_its_part(self):
        answer = self.run_parts(GPU, {"name": "missing", "command": ["{build}/no/program"], "seconds": 5})
        self.assertEqual(answer.returncode, 1, answer.stderr)
        self.assertEqual(self.rows()["missing"], f"FAILED: {self.folder.resolve()}/no/program: No such file or directory")

    def test_parts_can_be_chosen_by_their_names(self):
        answer = self.run_parts(GPU, shell("one", "exit 1"), shell("two", "true"), arguments=["--only", "two"])
        self.assertEqual((answer.returncode, list(self.rows())), (0, ["gpu", "two"]), answer.stderr)
        answer = self.run_parts(GPU, shell("one", "true"), arguments=["--only", "three"])
        self.assertEqual(answer.returncode, 2)
        self.assertIn("--only three: takes some of gpu, one", answer.stderr)

    def test_a_table_that_cannot_be_read_is_refused(self):
        answer = self.run_parts({"name": "x", "commando": []})
        self.assertEqual((answer.returncode, answer.stdout), (2, ""))
        self.assertIn("parts.json: ", answer.stderr)
        answer = self.run_parts(shell("x", "true", figures="("))
        self.assertIn("x: figures: ", answer.stderr)

    def test_the_table_of_the_suite_is_read(self):
        build = self.folder / "build"
        probes = build / "tests" / "device" / "device_probes"
        probes.parent.mkdir(parents=True)
        probes.write_text("#!/bin/sh\necho 'skipped: no CUDA driver'\nexit 77\n")
        probes.chmod(0o755)
        answer = subprocess.run([sys.executable, RUN, build, "--out", self.report], capture_output=True, text=True)
        self.assertEqual((answer.returncode, answer.stderr), (77, ""), answer.stdout)
        self.assertIn("probes: skipped: skipped: no CUDA driver", answer.stdout)


def shortened(part):
    """With less to do: a double under a sanitizer takes a hundred times as long as a GPU."""
    command = list(part["command"])
    for option, value in (("--sizes", "8:1,100000:1"), ("--datatype", "float"), ("--op", "sum")):
        if option in command:
            command[command.index(option) + 1] = value
    return {**part, "command": command, "seconds": 120, "decides": False}


@unittest.skipIf(BUILD is None, "no build folder given")
class Programs(unittest.TestCase):
    def test_a_probe_that_does_not_exist_is_refused_with_the_names(self):
        program = BUILD / "tests/device/device_probes"
        for arguments in (["probe", "copies_of_nothing"], ["probe"], ["probe", "a", "b"]):
            answer = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=30)
            self.assertEqual(answer.returncode, 2, answer.stdout + answer.stderr)
            self.assertIn("  a_fault_loses_the_context\n", answer.stderr)


@unittest.skipIf(BUILD is None, "no build folder given")
class Folder(unittest.TestCase):
    """What goes to a machine with a GPU, on the double of the driver, from an empty folder."""

    @classmethod
    def setUpClass(cls):
        if shutil.which("patchelf") is None:
            raise unittest.SkipTest("patchelf is not installed")
        slot = tempfile.TemporaryDirectory()
        cls.addClassCleanup(slot.cleanup)
        cls.slot = pathlib.Path(slot.name)
        cls.made = cls.slot / "made"
        # Of a build with sanitizers it is larger than it may be; below is what must not be in it.
        answer = cls.make(cls.made, "--most-mib", "1000")
        assert answer.returncode == 0, answer.stdout + answer.stderr
        cls.folder = cls.slot / "there" / "suite"
        cls.folder.parent.mkdir()
        cls.made.rename(cls.folder)

    @staticmethod
    def make(folder, *options):
        script = RUN.parent / "folder" / "make_folder.py"
        return subprocess.run([sys.executable, script, BUILD, folder, "--on-double", *options],
                              capture_output=True, text=True, timeout=280)

    def test_it_runs_from_an_empty_folder(self):
        table = json.loads((self.folder / "source/tests/device/parts.json").read_text())
        parts = [shortened(part) for part in table["parts"]
                 if part["name"] in ("probes", "all-reduce", "all-gather", "reduce-scatter", "speed", "nccl", "paro.torch")]
        empty = self.slot / "empty"
        empty.mkdir()
        chosen = self.slot / "parts.json"
        chosen.write_text(json.dumps({"parts": parts}))
        kept = {name: value for name, value in os.environ.items()
                if name in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "HOME")}
        answer = subprocess.run([self.folder / "run", "--out", empty / "report.md", "--parts", chosen], cwd=empty, env=kept,
                                capture_output=True, text=True, timeout=280)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        text = (empty / "report.md").read_text()
        rows = dict(re.findall(r"^\| ([^|]+) \| (.*) \| [\d.]+ \| `.*` \|$", text, re.MULTILINE))
        for name in ("all-reduce", "all-gather", "reduce-scatter", "speed"):
            self.assertEqual(rows[name], "ok", text)
        # These need a GPU, and say so: their programs have started.
        for name in ("probes", "nccl", "paro.torch"):
            self.assertTrue(rows[name].startswith("skipped: "), text)
        self.assertEqual([path.name for path in empty.iterdir()], ["report.md"])
        self.assertIn("- all-gather: shown: every type in device memory", text)

    def test_its_packages_find_its_libraries(self):
        if re.search(r"__[at]san_init", subprocess.run(["nm", "-D", self.folder / "build/runtime/capi/libparo.so.0"],
                                                       capture_output=True, text=True).stdout):
            self.skipTest("a sanitizer's runtime cannot be loaded late")
        table = json.loads((self.folder / "source/tests/device/parts.json").read_text())
        part = next(part for part in table["parts"] if part["name"] == "paro.torch")
        chosen = self.slot / "library.json"
        code = "from paro import _library; print(_library.library()._name, _library.strategy_letters('zero2'))"
        chosen.write_text(json.dumps({"parts": [{**part, "needs": [], "command": ["{python}", "-c", code],
                                                 "figures": "libparo"}]}))
        report = self.slot / "library.md"
        answer = subprocess.run([self.folder / "run", "--out", report, "--parts", chosen], capture_output=True, text=True)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertIn(f"{self.folder}/build/runtime/capi/libparo.so.0 NGG", report.read_text())

    def test_nothing_in_it_is_of_this_machine(self):
        for path in self.folder.rglob("*"):
            self.assertFalse(path.is_symlink(), path)
            if path.is_file() and (".so" in path.name or path.parent.name in ("tools", "device")):
                found = subprocess.run(["readelf", "-d", path], capture_output=True, text=True).stdout
                self.assertNotIn("(RUNPATH)", found, path)
                for rpath in re.findall(r"Library rpath: \[(.*)\]", found):
                    self.assertTrue(all(each.startswith("$ORIGIN/") for each in rpath.split(":")), f"{path}: {rpath}")
        for path in (self.folder / "run", self.folder / "source/tests/device/parts.json"):
            self.assertNotIn(str(BUILD), path.read_text())

    def test_a_folder_that_is_too_large_or_not_its_own_is_refused(self):
        with self.assertRaisesRegex(make_folder.CannotMake, "MiB, 1 are the limit"):
            make_folder.check(self.folder, 1)
        other = self.slot / "other"
        other.mkdir()
        (other / "file").write_text("mine")
        answer = self.make(other)
        self.assertEqual(answer.returncode, 2, answer.stdout)
        self.assertIn("was not made by this script", answer.stderr)
        self.assertEqual((other / "file").read_text(), "mine")


if __name__ == "__main__":
    unittest.main()
