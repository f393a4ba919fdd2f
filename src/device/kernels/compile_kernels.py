#!/usr/bin/env python3
"""Compiles the kernels for all devices, and writes a C file that puts the result into an object.

usage: compile_kernels.py FATBIN C_FILE LOG DEPFILE SOURCE NVCC [ARGUMENT...]

LOG has what the assembler says of each kernel: registers, stack and spills.
"""
import pathlib
import subprocess
import sys

# The flags that keep results those of the host: no multiplication and addition in one, division and square root
# rounded right, subnormals as they are.
FLAGS = ["-std=c++20", "-O3", "-fmad=false", "-prec-div=true", "-prec-sqrt=true", "-ftz=false"]
# Machine code for the newest drivers' devices, and an intermediate form from which drivers compile for others.
TARGETS = ["-gencode", "arch=compute_80,code=[sm_80,compute_80]",
           "-gencode", "arch=compute_90,code=sm_90",
           "-gencode", "arch=compute_100,code=sm_100"]

# The compiler of the file sees no bytes: it marks the object as one that needs no executable stack, as always.
C_FILE = r"""__asm__(
    ".pushsection .rodata\n"
    ".balign 64\n"
    ".globl horing_kernels_begin\n"
    ".hidden horing_kernels_begin\n"
    "horing_kernels_begin:\n"
    ".incbin \"%s\"\n"
    ".globl horing_kernels_end\n"
    ".hidden horing_kernels_end\n"
    "horing_kernels_end:\n"
    ".byte 0\n"
    ".popsection\n");
"""


def main():
    fatbin, c_file, log, depfile, source, nvcc, *arguments = sys.argv[1:]
    command = [nvcc, *FLAGS, *TARGETS, *arguments, "-fatbin", "-Xfatbin", "-compress-all", "-Xptxas", "-v",
               "-MD", "-MF", depfile, "-MT", fatbin, "-o", fatbin, source]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    pathlib.Path(log).write_text(result.stdout)
    if result.returncode != 0:
        print(result.stdout, file=sys.stderr)
        return 1
    path = str(pathlib.Path(fatbin).resolve()).replace("\\", "\\\\").replace('"', '\\"')
    pathlib.Path(c_file).write_text(C_FILE % path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
