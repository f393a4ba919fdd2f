#!/usr/bin/env python3
"""Fails unless a shared library shows exactly what it promises.

usage: check_exports.py LIBRARY HEADER... [--needs SONAME] [--lacks SYMBOL]
       check_exports.py LIBRARY --promises SYMBOL,...

HEADER...: it promises the functions that these declare.
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


def escaped(library):
    return {line.split()[-1].split("@")[0]
            for line in output("nm", "-D", "--defined-only", library).splitlines()}


def needed(library):
    return re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-d", library))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("headers", nargs="*")
    parser.add_argument("--promises", type=lambda text: text.split(","))
    parser.add_argument("--needs")
    parser.add_argument("--lacks")
    options = parser.parse_args()
    if bool(options.headers) == bool(options.promises):
        parser.error("takes a HEADER or --promises")
    promised = set(options.promises or [])
    for header in options.headers:
        promised.update(DECLARED.findall(pathlib.Path(header).read_text()))
    exported = escaped(options.library)
    wrong = [f"{name} is promised, but {options.library} does not show it" for name in promised - exported]
    wrong += [f"{name} is not promised, but {options.library} shows it" for name in exported - promised]
    if options.needs and options.needs not in needed(options.library):
        wrong.append(f"{options.library} is not linked to {options.needs}")
    if options.lacks and options.lacks in output("nm", options.library):
        wrong.append(f"{options.library} holds a copy of {options.lacks}")
    for line in sorted(wrong):
        print(f"{options.library}: {line}")
    print(f"exports: {len(promised)} symbols, {len(wrong)} wrong")
    return 1 if wrong or not promised else 0


if __name__ == "__main__":
    sys.exit(main())
