#!/usr/bin/env python3
"""Fails where a compiled kernel spills registers or uses local memory, or where a kernel is missing.

usage: kernel_report.py LOG KERNEL_LIST

LOG is what nvcc's assembler said (-Xptxas -v), KERNEL_LIST the header that names the kernels.
"""
import pathlib
import re
import sys

TARGETS = ("sm_80", "sm_90", "sm_100")
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
LISTED = re.compile(r"^  X\((\w+),", re.MULTILINE)


def names_of(kernel_list):
    return set(LISTED.findall(kernel_list))


def faults_in(log, names):
    """What is wrong, one line each."""
    faults = []
    seen = set()
    entry = None
    for line in log.splitlines():
        if match := ENTRY.search(line):
            entry = match.groups()
        elif (match := STACK.search(line)) and entry:
            seen.add(entry)
            stack, stores, loads = (int(number) for number in match.groups())
            if stack or stores or loads:
                faults.append(f"{entry[0]} for {entry[1]}: {stack} bytes of stack, {stores} spilled, {loads} read back: "
                              "make its vectors smaller (vector_count) or its loops shorter")
            entry = None
    for target in TARGETS:
        missing = sorted(names - {name for name, of in seen if of == target})
        if missing:
            faults.append(f"not compiled for {target}: {', '.join(missing)}")
    return faults


def main():
    log, kernel_list = (pathlib.Path(name).read_text() for name in sys.argv[1:3])
    names = names_of(kernel_list)
    faults = faults_in(log, names)
    for fault in faults:
        print(fault)
    print(f"kernels: {len(names)}, {len(faults)} faults")
    return 1 if faults or len(names) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
