#!/usr/bin/env python3
"""Fails unless a shared library shows exactly the functions that its header declares.

usage: check_exports.py LIBRARY HEADER [--needs SONAME] [--lacks SYMBOL]

--needs: LIBRARY must be linked to that library. --lacks: LIBRARY must not hold a copy of what has
this (mangled) word in its name; looked for where the symbol table was not stripped.
"""
import argparse
import pathlib
import re
import subprocess
import sys

DECLARED = re.compile(r"^(?:HO|PARO)_API\b[^;(]*?\b(\w+)\(", re.MULTILINE)


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def shown(library):
    return {line.split()[-1].split("@")[0]
            for line in output("nm", "-D", "--defined-only", library).splitlines()}


def needed(library):
    return re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-d", library))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("header")
    parser.add_argument("--needs")
    parser.add_argument("--lacks")
    options = parser.parse_args()
    declared = set(DECLARED.findall(pathlib.Path(options.header).read_text()))
    exported = shown(options.library)
    wrong = [f"declares {name}, which {options.library} does not show" for name in declared - exported]
    wrong += [f"does not declare {name}, which {options.library} shows" for name in exported - declared]
    if options.needs and options.needs not in needed(options.library):
        wrong.append(f"{options.library} is not linked to {options.needs}")
    if options.lacks and options.lacks in output("nm", options.library):
        wrong.append(f"{options.library} holds a copy of {options.lacks}")
    for line in sorted(wrong):
        print(f"{options.header}: {line}")
    print(f"exports: {len(declared)} functions, {len(wrong)} wrong")
    return 1 if wrong or not declared else 0


if __name__ == "__main__":
    sys.exit(main())
