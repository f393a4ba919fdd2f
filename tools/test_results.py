#!/usr/bin/env python3
"""usage: test_results.py [--failures] LOG

How many tests of a meson log (one JSON value a line) passed and failed; with --failures the names of
those that failed, with the last lines that each printed.
"""
import json
import sys

GOOD = {"OK", "EXPECTEDFAIL"}
NEITHER = {"SKIP", "IGNORED"}
LINES_SHOWN = 60

tests = [json.loads(line) for line in open(sys.argv[-1]) if line.strip()]
failures = [test for test in tests if test["result"] not in GOOD | NEITHER]
if sys.argv[1] == "--failures":
    for test in failures:
        print(f"failed: {test['name']} ({test['result']}, status {test['returncode']})")
        output = f"{test.get('stdout', '')}\n{test.get('stderr', '')}".splitlines()
        print("\n".join(f"  {line}" for line in output[-LINES_SHOWN:]))
else:
    print(sum(test["result"] in GOOD for test in tests), len(failures))
