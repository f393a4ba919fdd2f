"""The wheel and the sdist: built, looked into, installed into clean venvs, used, uninstalled.

usage: wheel_test.py SOURCE_ROOT WORK_FOLDER [WHEEL [SDIST]]

Without WHEEL tools/wheel builds both. Status 77: pip gets nothing here, so nothing was tested.
"""

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

SKIPPED = 77
# What every machine with this platform tag has (PEP 600's list, as far as C++ programs take it).
PLATFORM = re.compile(
    r"(libc|libm|libdl|librt|libpthread|libutil|libresolv|libnsl|libgcc_s|libstdc\+\+)\.so\.\d+"
    r"|ld-linux[-\w]*\.so\.\d+"
)
COMMANDS = ["horing", "paro", "all_gather_perf", "all_reduce_perf", "reduce_scatter_perf"]
# Two ranks of one process tree meet and add; each prints what it got.
ADD = """
import array, horing
with horing.Communicator() as comm:
    data = array.array("f", [comm.rank + 1.0] * 3)
    comm.all_reduce(data)
    print("sum", list(data))
"""

source_root, work = Path(sys.argv[1]), Path(sys.argv[2]).resolve()
input = [Path(each).resolve() for each in sys.argv[3:5]]


def output_of(*command, **more):
    """Of a command that succeeds."""
    done = subprocess.run(command, text=True, capture_output=True, timeout=300, **more)
    if done.returncode != 0:
        raise AssertionError(f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def built():
    """Paths of the wheel and the sdist, or None where pip gets nothing."""
    if input:
        return input[0], input[1] if len(input) > 1 else None
    folder = work / "dist"
    done = subprocess.run([source_root / "tools" / "wheel", folder], text=True, capture_output=True)
    print(done.stdout, done.stderr, flush=True)
    if "pip cannot install" in done.stderr:
        return None
    if done.returncode != 0:
        sys.exit(f"tools/wheel: status {done.returncode}")
    return next(folder.glob("horing-*.whl")), next(folder.glob("horing-*.tar.gz"))


def needed_of(path):
    found = re.findall(r"\(NEEDED\)\s+Shared library: \[(.+)\]", output_of("readelf", "-d", path))
    return set(found)


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


class Wheel(unittest.TestCase):
    """One installation for all tests."""

    wheel: Path
    sdist: Path | None

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="wheel-", dir=work))
        cls.python = cls.folder / "venv" / "bin" / "python"
        output_of(sys.executable, "-m", "venv", cls.folder / "venv")
        output_of(cls.python, "-m", "pip", "install", "-q", "--no-index", cls.wheel)
        found = "import horing, os; print(os.path.dirname(horing.__file__))"
        cls.package = Path(output_of(cls.python, "-c", found, cwd=cls.folder).strip())

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def run_python(self, *arguments, **more):
        return output_of(self.python, *arguments, cwd=self.folder, **more)

    def test_the_tag_names_no_version_of_python(self):
        self.assertRegex(self.wheel.name, r"-py3-none-manylinux_2_\d+_\w+\.whl$")

    def test_all_that_elf_files_need_is_inside_or_the_platform_s(self):
        inside = [path for path in self.package.parent.glob("horing*/**/*") if path.is_file()]
        elf = [path for path in inside if is_elf(path)]
        names = {path.name for path in elf}
        self.assertGreater(len(elf), 10)
        for path in elf:
            for each in needed_of(path):
                self.assertTrue(
                    each in names or PLATFORM.fullmatch(each), f"{path.name} needs {each}"
                )

    def test_no_file_names_the_machine_that_built_it(self):
        for path in self.package.parent.glob("horing*/**/*"):
            if path.is_file() and is_elf(path):
                reported = output_of("readelf", "-d", path)
                run_path = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", reported)
                for each in ":".join(run_path).split(":"):
                    self.assertTrue(not each or each.startswith("$ORIGIN"), f"{path.name}: {each}")

    def test_the_types_and_the_entry_point_are_in_it(self):
        names = zipfile.ZipFile(self.wheel).namelist()
        self.assertIn("horing/py.typed", names)
        entries = next(name for name in names if name.endswith("entry_points.txt"))
        text = zipfile.ZipFile(self.wheel).read(entries).decode()
        self.assertRegex(text, r"\[torch\.backends\]\s+horing ?= ?horing\.torch\.registration:register")
        self.assertFalse([name for name in names if "cache" in name.lower()])

    def test_the_plugin_is_a_file_that_loads(self):
        path = self.run_python("-m", "horing", "--plugin-path").strip()
        self.assertTrue(Path(path).is_file(), path)
        load = f"import ctypes; ctypes.CDLL({path!r}).ncclNetPlugin_v8; print('loaded')"
        self.assertEqual(self.run_python("-c", load).strip(), "loaded")

    def test_the_package_has_the_version_of_its_library(self):
        reported = self.run_python("-m", "horing", "--version").strip()
        metadata = "import importlib.metadata as m; print(m.version('horing'))"
        self.assertEqual(reported, self.run_python("-c", metadata).strip())

    def test_every_command_runs_from_the_wheel(self):
        for name in COMMANDS:
            with self.subTest(name):
                reported = output_of(self.python.parent / name, "--help")
                self.assertIn("usage: ", reported.replace("Usage", "usage"))

    def test_two_ranks_add_through_the_wheel(self):
        command = [self.python.parent / "horing", "run", "-n", "2", self.python, "-c", ADD]
        self.assertEqual(output_of(*command, cwd=self.folder).count("sum [3.0, 3.0, 3.0]"), 2)

    def test_another_libhoring_in_the_process_is_named_and_not_used(self):
        other = self.folder / "other"
        shutil.copytree(self.package.parent / "horing" / "lib", other / "horing" / "lib")
        libs = self.package.parent / "horing.libs"
        shutil.copytree(libs, other / "horing.libs")
        first = other / "horing" / "lib" / "libhoring.so.0"
        code = (
            "import ctypes, logging, os\n"
            "logging.basicConfig()\n"
            f"first = ctypes.CDLL({str(first)!r})\n"
            "import horing\n"
            "own = horing._library.library()\n"
            "address = lambda it: ctypes.cast(it.ho_version, ctypes.c_void_p).value\n"
            "print(address(own) != address(first), own._name)\n"
        )
        done = subprocess.run(
            [self.python, "-c", code], text=True, capture_output=True, cwd=self.folder, check=True
        )
        self.assertEqual(done.stdout.split(), ["True", str(self.package / "lib" / "libhoring.so.0")])
        self.assertIn(f"{first} is loaded already", done.stderr)

    def test_the_sdist_holds_what_git_tracks(self):
        if self.sdist is None:
            self.skipTest("no sdist was given")
        with tarfile.open(self.sdist) as archive:
            held = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
        tracked = set(output_of("git", "-C", source_root, "ls-files").split("\n")) - {""}
        self.assertFalse(tracked - held)

    def test_uninstalling_leaves_nothing_behind(self):
        venv = self.folder / "again"
        output_of(sys.executable, "-m", "venv", venv)
        python = venv / "bin" / "python"
        before = set(venv.rglob("*"))
        pip = [python, "-m", "pip", "-q", "--no-cache-dir"]
        output_of(*pip, "install", "--no-index", self.wheel)
        self.assertTrue(set(venv.rglob("horing*")))
        output_of(python, "-m", "horing", "--plugin-path", cwd=self.folder)
        output_of(*pip, "uninstall", "-y", "horing")
        left = {path for path in set(venv.rglob("*")) - before if "pip" not in path.parts}
        self.assertFalse({path for path in left if "horing" in str(path.relative_to(venv))})


def main():
    work.mkdir(parents=True, exist_ok=True)
    found = built()
    if found is None:
        print("wheel: skipped: pip gets no packages here")
        return SKIPPED
    Wheel.wheel, Wheel.sdist = found
    outcome = unittest.main(argv=sys.argv[:1], exit=False, verbosity=2).result
    return 0 if outcome.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
