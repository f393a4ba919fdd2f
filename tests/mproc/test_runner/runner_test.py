#!/usr/bin/env python3
"""tools/test itself, in a tree whose builds, suites and steps are fakes: its repetitions and its interrupt."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
# pylint: disable=wrong-import-position
import processes  # noqa: E402

TOOLS = pathlib.Path(__file__).parents[3] / "tools"
PARTS = ("test", "test_results.py", "test_repetition.py", "test_targets.py")

MESON = """project('fakes')
foreach name : ['well', 'first', 'second', 'third', 'wrong', 'killed', 'reported', 'late', 'skips']
  test(name, find_program('./fake'), args: name, suite: 'inproc')
endforeach
"""
OPTIONS = """option('tests', type: 'feature')
option('cuda', type: 'feature')
option('sanitize', type: 'string')
"""
# HORING_TEST_FAKES: those that fail, each the first time only, but `late` always, and `skips` skips then. With "stay", `well` and lint stay;
# with "busy" `well` takes two seconds and a half of a processor.
FAKE = r"""#!/usr/bin/env bash
name=$1
if [ "${0##*/}" != fake ]; then name=${0##*/}; fi
echo "output of $name, niceness $(nice), $(cat /proc/self/autogroup 2>/dev/null)"
if [[ $HORING_TEST_FAKES == stay && $name =~ ^(well|lint)$ ]]; then
  echo $$ >"new-$name" && mv "new-$name" "pid-$name"
  exec sleep 600
fi
if [[ $HORING_TEST_FAKES == busy && $name == well ]]; then
  exec python3 -c 'import time
while time.process_time() < 2.5: pass'
fi
if [[ " $HORING_TEST_FAKES " != *" $name "* ]]; then exit 0; fi
if [ "$name" != late ] && ! mkdir "failed-$name" 2>/dev/null; then
  if [ "$name" = skips ]; then exit 77; fi
  exit 0
fi
failed() { printf 'a_test.cpp:3: FAILED:\n  CHECK( %s )\nwith expansion:\n  %s\n\nassertions: 1 | 1 failed\n' "$@"; }
case $name in
  wrong) failed 'sum == 3' '4 == 3' ;;
  *) failed 'status == HO_OK' '3 == 0' ;;
esac
if [ "$name" = reported ]; then echo 'WARNING: ThreadSanitizer: data race' >&2; fi
if [ "$name" = killed ]; then kill -SEGV $$; fi
exit 1
"""

STEP = "import subprocess, sys\nsys.exit(subprocess.call(['./fake', 'step']))\n"
# Without a Python in it there is no torch.
VENV = """#!/usr/bin/env bash
if [ ! -e "$1/venv-torch/bin/python" ]; then exit 77; fi
for word; do
  if [[ $word == *_test.py ]]; then exec ./fake "$(basename "$word" .py)"; fi
done
exec ./fake another
"""


class Runner(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "tools").mkdir()
        for part in PARTS:
            shutil.copy(TOOLS / part, self.root / "tools" / part)
        packages = "build_packages=() test_packages=()\ninstall_packages() { :; }\n"
        (self.root / "tools" / "packages.sh").write_text(packages)
        (self.root / "meson.build").write_text(MESON)
        (self.root / "meson_options.txt").write_text(OPTIONS)
        for name, text in (("fake", FAKE), ("tools/lint", FAKE), ("tools/wheel", FAKE),
                           ("tests/wheel/wheel_test.py", STEP), ("tests/torch_backend/on_double", ""),
                           ("tests/support/torch_venv", VENV)):
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)

    def begin(self, fakes, *parts):
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("MESON_", "HORING_"))}
        return subprocess.Popen([self.root / "tools" / "test", *parts], text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, env={**variables, "HORING_TEST_FAKES": fakes})

    def run_parts(self, fakes, *parts):
        process = self.begin(fakes, *parts)
        output, _ = process.communicate(timeout=100)
        return subprocess.CompletedProcess(process.args, process.returncode, output)

    def listed(self):
        """(name, first output, second output) of each line of the file."""
        path = self.root / "build-test-logs" / "passed-on-repetition.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(name, *((self.root / at_index).read_text() for at_index in indices.split(", ")))
                for name, indices in (line.split(": ") for line in lines)]

    def test_what_passes_alone_is_told_and_fails_nothing(self):
        python = self.root / "build-test-python" / "venv-torch" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.touch(0o755)
        answer = self.run_parts("ranks_test second", "thread", "python")
        *last, counts = answer.stdout.splitlines()[-4:]
        self.assertEqual(answer.returncode, 0, answer.stdout)
        self.assertRegex(counts, "^[1-9][0-9]* passed, 0 failed$")
        self.assertEqual(last, ["passed on repetition: thread second", "passed on repetition: torch_paro_ranks",
                                "their first and second outputs: build-test-logs/passed-on-repetition.txt"])
        self.assertEqual([name for name, *_ in self.listed()], ["thread second", "torch_paro_ranks"])
        for _, first, second in self.listed():
            self.assertRegex(first, "output of (second|ranks_test)")
            self.assertRegex(second, "output of (second|ranks_test)")
            self.assertIn("3 == 0", first)
            self.assertNotIn("3 == 0", second)

    def test_what_builds_gives_way_to_the_suites(self):
        answer = self.run_parts("", "thread", "lint")
        self.assertEqual(answer.returncode, 0, answer.stdout)
        built = (self.root / "build-test-logs" / "lint-build.txt").read_text()
        tested = (self.root / "build-test-thread" / "meson-logs" / "thread.txt").read_text()
        self.assertRegex(built, "niceness 19, (/autogroup-.* nice 19)?\n")
        self.assertRegex(tested, f"niceness {os.nice(0)}, (/autogroup-.* nice 0)?\n")

    def test_seconds_of_processors_are_told_of_each_part_and_counted_once(self):
        answer = self.run_parts("busy", "lint", "thread")
        self.assertEqual(answer.returncode, 0, answer.stdout)
        of_parts = {name: int(spent) for spent, name in
                    re.findall(r"^time: \d+ s \((-?\d+) s of processors\) ([^,\n]+)", answer.stdout, re.MULTILINE)}
        self.assertEqual(sorted(of_parts), ["lint", "packages", "thread", "thread (build)"], answer.stdout)
        self.assertGreaterEqual(min(of_parts.values()), 0, answer.stdout)
        self.assertGreaterEqual(of_parts["thread"], 2, answer.stdout)
        reported = re.search(r"^time: \d+ s in all; (\d+) s of processors", answer.stdout, re.MULTILINE)
        # What ends the run is in none of the parts.
        self.assertIn(int(reported[1]) - sum(of_parts.values()), range(2), answer.stdout)

    def test_steps_are_skipped_where_there_is_no_torch(self):
        answer = self.run_parts("", "python")
        self.assertEqual((answer.returncode, answer.stdout.splitlines()[-2:]),
                         (0, ["1 skipped: torch", "1 passed, 0 failed"]), answer.stdout)

    def test_more_than_two_that_pass_alone_fail_the_run(self):
        answer = self.run_parts("step first second third", "thread", "python")
        self.assertEqual(answer.returncode, 1, answer.stdout)
        self.assertIn("failed: 3 tests passed only on repetition; at most 2 may\n", answer.stdout)
        self.assertIn("not repeated: wheel: 3 tests have been\n", answer.stdout)
        self.assertEqual(len(self.listed()), 3)

    def test_what_is_no_chance_and_what_fails_again_fail_the_run(self):
        answer = self.run_parts("wrong killed reported late skips lint", "thread", "lint")
        self.assertEqual(answer.returncode, 1, answer.stdout)
        for line in ("not repeated: wrong: a wrong value, or an error that no slow machine explains",
                     "not repeated: killed: status -11", "not repeated: reported: a sanitizer's report",
                     "failed on repetition: thread late; build-test-logs/thread-late-repeated.txt",
                     "failed on repetition: thread skips; build-test-logs/thread-skips-repeated.txt",
                     "failed: lint", "4 passed, 6 failed"):
            self.assertIn(f"\n{line}\n", answer.stdout)
        self.assertNotIn("passed on repetition", answer.stdout)
        self.assertEqual(self.listed(), [])

    def test_an_interrupt_ends_what_builds_and_what_is_tested(self):
        built, tested = self.root / "pid-lint", self.root / "build-test-thread" / "pid-well"
        for parts, files in ((("lint",), [built]), (("thread", "lint"), [built, tested])):
            with self.subTest(parts):
                built.unlink(missing_ok=True)
                process = self.begin("stay", *parts)
                self.addCleanup(process.terminate)
                until = time.monotonic() + 90
                while not all(file.exists() for file in files):
                    self.assertLess(time.monotonic(), until, os.listdir(self.root))
                    time.sleep(0.02)
                process.send_signal(signal.SIGTERM)
                output, _ = process.communicate(timeout=100)
                self.assertEqual(process.returncode, 130, output)
                self.assertTrue(output.endswith("test: interrupted\n"), output)
                for file in files:
                    processes.wait_for_end(file.read_text().strip())


if __name__ == "__main__":
    unittest.main()
