#!/usr/bin/env python3
"""usage: test_results.py [--failures | --slowest] LOG [NAME...]

How many tests of a meson log (one JSON value a line) passed and failed; with --failures the names of
those that failed, with the last lines that each printed: of its log first, of its own report last; with
--slowest those that took longest. The tests NAME passed when they were repeated.
"""
import json
import re
import sys

GOOD = {"OK", "EXPECTEDFAIL"}
NEITHER = {"SKIP", "IGNORED"}
LOG_LINES_LISTED = 15
REPORT_LINES_LISTED = 60
SLOWEST_LISTED = 6


def last_lines(text: str, count: int) -> list[str]:
    return [f"  {line}" for line in text.splitlines()[-count:]]


what = sys.argv.pop(1) if sys.argv[1].startswith("--") else ""
tests = [json.loads(line) for line in open(sys.argv[1]) if line.strip()]
for test in tests:
    if re.split("[: ]", test["name"])[-1] in sys.argv[2:]:
        test["result"] = "OK"
failures = [test for test in tests if test["result"] not in GOOD | NEITHER]
if what == "--failures":
    for test in failures:
        print(f"failed: {test['name']} ({test['result']}, status {test['returncode']})")
        print(*last_lines(test.get("stderr", ""), LOG_LINES_LISTED), sep="\n")
        print(*last_lines(test.get("stdout", ""), REPORT_LINES_LISTED), sep="\n")
    print(f"failed: {', '.join(test['name'] for test in failures)}")
elif what == "--slowest":
    slowest = sorted(tests, key=lambda test: test["duration"], reverse=True)[:SLOWEST_LISTED]
    print(", ".join(f"{re.split('[: ]', test['name'])[-1]} {test['duration']:.0f} s" for test in slowest))
else:
    print(sum(test["result"] in GOOD for test in tests), len(failures))
