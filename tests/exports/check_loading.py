#!/usr/bin/env python3
"""Fails unless a library can be opened without leaving a trace in the process.

usage: check_loading.py LIBRARY

A library that a framework opens may not change what the process does at a signal, and may not need what
only an option of its uses (UCX).
"""
import ctypes
import os
import re
import subprocess
import sys

OPTIONAL = re.compile(r"\(NEEDED\).*\[(libuc[a-z]\.so.*)\]")


def caught():
    with open("/proc/self/status") as lines:
        return next(line.split()[1] for line in lines if line.startswith("SigCgt:"))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    library = sys.argv[1]
    dynamic = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    wrong = [f"it cannot be opened without {name}" for name in OPTIONAL.findall(dynamic)]
    before = caught()
    ctypes.CDLL(library, mode=os.RTLD_NOW | os.RTLD_LOCAL)
    if caught() != before:
        wrong.append(f"opening it changes which signals are caught (SigCgt) from {before} to {caught()}")
    for line in wrong:
        print(f"{library}: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
