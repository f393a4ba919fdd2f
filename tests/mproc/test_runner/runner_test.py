#!/usr/bin/env python3
"""tools/test repeats what failed by chance: the program itself, in a tree whose suites and lint are fakes."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).parents[3] / "tools"
PARTS = ("test", "test_results.py", "test_repetition.py", "test_targets.py")

MESON = """project('fakes')
foreach name : ['well', 'first', 'second', 'third', 'wrong', 'killed', 'reported', 'late']
  test(name, find_program('./fake'), args: name, suite: 'inproc')
endforeach
"""
OPTIONS = """option('tests', type: 'feature')
option('cuda', type: 'feature')
option('sanitize', type: 'string')
"""
# HORING_TEST_FAKES names those that fail: each the first time only, but `late` always.
FAKE = r"""#!/usr/bin/env bash
name=$1
if [ "${0##*/}" = lint ]; then name=lint; fi
echo "output of $name"
if [[ " $HORING_TEST_FAKES " != *" $name "* ]]; then exit 0; fi
if [ "$name" != late ] && ! mkdir "failed-$name" 2>/dev/null; then exit 0; fi
failed() { printf 'a_test.cpp:3: FAILED:\n  CHECK( %s )\nwith expansion:\n  %s\n\nassertions: 1 | 1 failed\n' "$@"; }
case $name in
  wrong) failed 'sum == 3' '4 == 3' ;;
  *) failed 'status == HO_OK' '3 == 0' ;;
esac
if [ "$name" = reported ]; then echo 'WARNING: ThreadSanitizer: data race' >&2; fi
if [ "$name" = killed ]; then kill -SEGV $$; fi
exit 1
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
        for name in ("fake", "tools/lint"):
            (self.root / name).write_text(FAKE)
            (self.root / name).chmod(0o755)

    def run_parts(self, fakes):
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("MESON_", "HORING_"))}
        return subprocess.run([self.root / "tools" / "test", "lint", "thread"], capture_output=True, text=True,
                              env={**variables, "HORING_TEST_FAKES": fakes}, timeout=100)

    def listed(self):
        """(name, first output, second output) of each line of the file."""
        path = self.root / "build-test-logs" / "passed-on-repetition.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(name, *((self.root / place).read_text() for place in places.split(", ")))
                for name, places in (line.split(": ") for line in lines)]

    def test_what_passes_alone_is_told_and_fails_nothing(self):
        answer = self.run_parts("lint second")
        last = answer.stdout.splitlines()[-4:]
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertEqual(last, ["passed on repetition: lint", "passed on repetition: thread second",
                                "their first and second outputs: build-test-logs/passed-on-repetition.txt",
                                "9 passed, 0 failed"])
        self.assertEqual([name for name, *_ in self.listed()], ["lint", "thread second"])
        for name, first, second in self.listed():
            self.assertIn(f"output of {name.split()[-1]}", first)
            self.assertIn(f"output of {name.split()[-1]}", second)
            self.assertIn("3 == 0", first)
            self.assertNotIn("3 == 0", second)

    def test_more_than_two_that_pass_alone_fail_the_run(self):
        answer = self.run_parts("lint first second third")
        self.assertEqual(answer.returncode, 1, answer.stdout + answer.stderr)
        self.assertIn("failed: 3 tests passed only on repetition; at most 2 may\n", answer.stdout)
        self.assertIn("not repeated: thread third: 3 tests have been\n", answer.stdout)
        self.assertEqual(len(self.listed()), 3)

    def test_what_is_no_chance_and_what_fails_again_fail_the_run(self):
        answer = self.run_parts("wrong killed reported late")
        self.assertEqual(answer.returncode, 1, answer.stdout + answer.stderr)
        for line in ("not repeated: wrong: a wrong value, or an error that no slow machine explains",
                     "not repeated: killed: status -11", "not repeated: reported: a sanitizer's report",
                     "failed on repetition: thread late; build-test-logs/thread-late-repeated.txt",
                     "5 passed, 4 failed"):
            self.assertIn(f"\n{line}\n", answer.stdout)
        self.assertNotIn("passed on repetition", answer.stdout)
        self.assertEqual(self.listed(), [])


if __name__ == "__main__":
    unittest.main()
