#!/usr/bin/env python3
"""Makes a folder that runs the device suite on a machine with a GPU and none of the build's packages.

usage: make_folder.py BUILD FOLDER [--on-double] [--most-mib 40]

BUILD is a build folder with tests and, for sums on the device, nvcc; FOLDER is made anew. On the other machine, which
needs Python 3 and for some parts torch: FOLDER/run --out REPORT.md (and more of tests/device/run's options).
--on-double: with programs in which a double is in the place of the CUDA driver, for tests. Takes strip and patchelf.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[3]
PERF = ("all_reduce_perf", "all_gather_perf", "reduce_scatter_perf")
FILES = ["tools/horing", "tests/device/device_probes", "tests/device/device_kernels", "tests/device/device_states",
         "tests/device/device_aborts", "tests/device/device_nccl_runtime", "tests/device/device_paro_runner",
         "src/capi/libhoring.so.0", "runtime/capi/libparo.so.0", "plugin/libnccl-net-horing.so"]
SOURCES = ["tests/device/run", "tests/device/parts.json", "tests/device/nccl/run_suite.py",
           "tests/device/nccl/torch_collectives.py", "python/horing/**/*.py", "python/paro/**/*.py",
           "tests/torch_backend/*.py", "tests/torch_paro/*.py"]
# What every such machine has itself; names of libraries without their versions.
ITS_OWN = re.compile(r"^(linux-vdso|ld-linux[-\w]*|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s))\.so")
RUN = """#!/bin/sh
# usage: run [--out REPORT.md, report.md where nothing is given] [more options of tests/device/run]
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || set -- --out report.md
exec python3 "$here/source/tests/device/run" "$here/build" "$@"
"""


class CannotMake(Exception):
    pass


def output_of(*command):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LD_")}
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env=clean)
    if answer.returncode != 0:
        raise CannotMake(f"{' '.join(map(str, command))}: {answer.stderr.strip() or answer.stdout.strip()}")
    return answer.stdout


def libraries_of(path):
    """(name, file or None) of what the loader takes for it, but for what every machine has."""
    found = []
    for line in output_of("ldd", path).splitlines():
        match = re.match(r"\s*(\S+) => (/\S+|not found)", line)
        if match and not ITS_OWN.match(match[1]):
            found.append((match[1], None if match[2] == "not found" else pathlib.Path(match[2])))
    return found


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def copy(source, target):
    if not source.is_file():
        raise CannotMake(f"{source} is missing: build it first (ninja -C BUILD device_folder builds all that is needed)")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)
    target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)


def copy_all(build, folder, on_double):
    for name in FILES:
        copy(build / name, folder / "build" / name)
    for name in PERF:
        source = f"tests/mproc/perf/{name}_on_double" if on_double else f"tools/{name}"
        copy(build / source, folder / "build" / "tools" / name)
    for pattern in SOURCES:
        for path in SOURCE.glob(pattern):
            copy(path, folder / "source" / path.relative_to(SOURCE))


def take_libraries(folder):
    """What the programs need beside the project's own library, into lib."""
    for path in [path for path in (folder / "build").rglob("*") if path.is_file()]:
        for name, library in libraries_of(path):
            if library is not None and not name.startswith("libhoring"):
                copy(library, folder / "lib" / name)


def finish(folder):
    """Strips what is there and lets it find its libraries wherever the folder lies."""
    for path in [path for path in folder.rglob("*") if path.is_file() and is_elf(path)]:
        output_of("strip", "--strip-unneeded", path)
        up = os.path.relpath(folder, path.parent)
        # No RUNPATH: it would not count for what the libraries need.
        output_of("patchelf", "--force-rpath", "--set-rpath", f"$ORIGIN/{up}/lib:$ORIGIN/{up}/build/src/capi", path)


def check(folder, most_mib):
    for path in [path for path in folder.rglob("*") if path.is_file() and is_elf(path)]:
        for name, library in libraries_of(path):
            if library is None or not library.is_relative_to(folder):
                raise CannotMake(f"{path} takes {name} from {library or 'nowhere'}, not from the folder")
    mib = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20
    if mib > most_mib:
        raise CannotMake(f"{folder} has {mib:.1f} MiB, {most_mib} are the limit; is {folder.name} of a release build?")
    return mib


def revision():
    try:
        return output_of("git", "-C", SOURCE, "describe", "--always", "--dirty").strip()
    except (CannotMake, OSError):
        return ""


def make(build, folder, on_double, most_mib):
    shutil.rmtree(folder, ignore_errors=True)
    copy_all(build, folder, on_double)
    take_libraries(folder)
    finish(folder)
    run = folder / "run"
    run.write_text(RUN, encoding="utf-8")
    run.chmod(0o755)
    (folder / "source" / "revision").write_text(revision() + "\n", encoding="utf-8")
    return check(folder, most_mib)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "))
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--on-double", action="store_true")
    parser.add_argument("--most-mib", type=float, default=40)
    arguments = parser.parse_args()
    for tool in ("strip", "patchelf", "ldd"):
        if shutil.which(tool) is None:
            parser.error(f"{tool} is not installed: apt-get install binutils patchelf")
    folder = arguments.folder.resolve()
    if folder.exists() and not (folder / "source" / "revision").exists() and any(folder.iterdir()):
        parser.error(f"{folder} is there and was not made by this script: name another folder")
    try:
        mib = make(arguments.build.resolve(), folder, arguments.on_double, arguments.most_mib)
    except CannotMake as error:
        print(f"make_folder.py: {error}", file=sys.stderr)
        return 1
    print(f"{folder}: {mib:.1f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
