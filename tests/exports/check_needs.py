#!/usr/bin/env python3
"""Fails where something that is built needs a library of CUDA to be started or opened.

usage: check_needs.py FILE...

The driver and, for libparo, NCCL are opened while the program runs; to the plugin NCCL comes itself. Everything works
where neither is installed.
"""
import re
import subprocess
import sys

UNWANTED = re.compile(r"\(NEEDED\).*\[(lib(?:cuda|cudart|nccl|nvrtc|nvJitLink)\.so[^\]]*)\]")


def unwanted(dynamic):
    return UNWANTED.findall(dynamic)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    planted = "".join(f" 0x1 (NEEDED) Shared library: [{name}]\n" for name in ("libcuda.so.1", "libnccl.so.2", "libc.so.6"))
    if unwanted(planted) != ["libcuda.so.1", "libnccl.so.2"]:
        sys.exit("check_needs.py does not see what is planted")
    wrong = []
    linked = 0
    for name in sys.argv[1:]:
        dynamic = subprocess.run(["readelf", "-d", name], capture_output=True, text=True, check=True).stdout
        linked += dynamic.count("(NEEDED)")
        wrong += [f"{name} needs {library}" for library in unwanted(dynamic)]
    for line in wrong:
        print(line)
    print(f"needs: {len(sys.argv) - 1} files, {len(wrong)} wrong")
    return 1 if wrong or linked == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
