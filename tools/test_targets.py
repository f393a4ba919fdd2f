#!/usr/bin/env python3
"""usage: test_targets.py BUILD SUITE...: what ninja must build for these suites, one a line."""
import json
import os
import pathlib
import sys

build = pathlib.Path(sys.argv[1]).resolve()
suites = set(sys.argv[2:])


def read(kind):
    return json.loads((build / "meson-info" / f"intro-{kind}.json").read_text())


# Meson calls a suite "project:suite".
tests = [test for test in read("tests")
         if suites & {name.split(":")[-1] for name in test["suite"]}]
if not tests:
    sys.exit(f"test_targets: {build} has no tests of {', '.join(sorted(suites))}; "
             "was it configured with -Dtests=enabled?")
needed = {target for test in tests for target in test["depends"]}
for target in read("targets"):
    if target["id"] in needed:
        print(*(os.path.relpath(name, build) for name in target["filename"]), sep="\n")
