#!/usr/bin/env python3
"""usage: count_tests.py LOG: how many tests of a meson log (one JSON value a line) passed and failed."""
import json
import sys

GOOD = {"OK", "EXPECTEDFAIL"}
NEITHER = {"SKIP", "IGNORED"}
results = [json.loads(line)["result"] for line in open(sys.argv[1]) if line.strip()]
print(sum(r in GOOD for r in results), sum(r not in GOOD | NEITHER for r in results))
