#!/usr/bin/env python3
"""Compiles every header on its own: public ones as C11 (.h) and C++20, internal ones as C++20.

usage: check_headers.py [--cc CC] [--cxx CXX] [--quick] [ROOT]

--quick leaves headers that the file of their own name includes before anything else to who compiles
that file by itself; of these only the include guard is looked at. Nor does it compile headers of tests,
which nobody but a test includes: the release parts of tools/test --full compile these too.

Exempt, since their purpose is to be included again and again inside other files' namespaces:
headers that end in _inl.hpp.
"""
import argparse
import concurrent.futures
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
# Folders whose headers need a library that a build can do without.
OPTIONAL = {"src/transport/ucx": "ucx", "plugin/core/ucx": "ucx"}
# Headers that need torch: the file that includes them in a build that has it, before anything else
# where the format lets it.
COMPILED_BY = {"include/paro/torch.hpp": "runtime/torch/model.cpp",
               "tests/inproc/paro_torch/alone.hpp": "tests/inproc/paro_torch/model_test.cpp"}
# Folders whose sources the release parts of tools/test --full compile one by one.
COMPILED_SINGLY = ("src", "plugin", "runtime", "tests", "tools")
PACKAGES = ["spdlog", "hwloc", "libsodium", "libhwy", "catch2", "catch2-with-main", "ucx"]


def package_flags():
    """Compile flags of those libraries that are installed."""
    flags = ["-D_GNU_SOURCE"]
    for package in PACKAGES:
        answer = subprocess.run(["pkg-config", "--cflags", package], capture_output=True, text=True)
        if answer.returncode == 0:
            flags += shlex.split(answer.stdout)
            if package == "ucx":
                flags.append("-DHORING_HAVE_UCX")
    return flags


def missing_folders(root):
    """Folders that cannot be checked here, each said once."""
    missing = []
    for folder, package in OPTIONAL.items():
        if subprocess.run(["pkg-config", "--exists", package]).returncode != 0:
            print(f"headers: {folder} not checked, {package} is not installed")
            missing.append(root / folder)
    return missing


def compiled_first(header):
    """Whether the file of its name includes it before anything else."""
    source = header.with_suffix(".cpp")
    if not source.exists():
        return False
    first = next((line for line in source.read_text().splitlines() if line.startswith("#include")), "")
    named = pathlib.PurePath(first.removeprefix('#include "').removesuffix('"')).parts
    return bool(named) and header.parts[-len(named):] == named


def left_to_others(top, header):
    """Whether --quick leaves it to what compiles every file and header by itself."""
    guarded = "#pragma once" in header.read_text()
    return guarded and (top == "tests" or (top in COMPILED_SINGLY and compiled_first(header)))


def jobs(root, cc, cxx, quick):
    """(header, what, command without the file) for each compilation."""
    left = {root / header for header in COMPILED_BY}
    for header, source in COMPILED_BY.items():
        print(f"headers: {header} is left to {source}")
    public = {p for p in (root / "include").rglob("*") if p.suffix in (".h", ".hpp")}
    include = f"-I{root / 'include'}"
    for header in sorted(public - left):
        if header.suffix == ".h":
            yield header, "C11", [*cc, "-std=c11", "-x", "c", include, *WARNINGS]
        yield header, "C++20", [*cxx, "-std=c++20", "-x", "c++", include, *WARNINGS]
    flags = package_flags()
    folders = [f"-I{root / f}" for f in ("src", "tests/support", "plugin", "runtime", "examples/gpu")]
    folders += sorted({f"-I{header.parent}" for header in (root / "tests").rglob("*.hpp")})
    folders += ["-iquote", str(root / "tools")]  # quoted includes only, as in the build
    missing = missing_folders(root)
    for top in ("src", "tools", "tests", "plugin", "runtime"):
        for header in sorted(set((root / top).rglob("*.hpp")) - left):
            if (not header.name.endswith("_inl.hpp") and header.parent not in missing
                    and not (quick and left_to_others(top, header))):
                yield header, "C++20", [*cxx, "-std=c++20", "-x", "c++", include, *folders,
                                        *WARNINGS, *flags]


def compile_alone(job):
    header, what, command = job
    # Twice, so that a missing include guard shows.
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as source:
        source.write(f'#include "{header}"\n#include "{header}"\n')
        source.flush()
        answer = subprocess.run([*command, "-fsyntax-only", source.name], capture_output=True,
                                text=True)
    return header, what, answer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("root", nargs="?", default=pathlib.Path(__file__).parents[2])
    options = parser.parse_args()
    root = pathlib.Path(options.root).resolve()
    work = list(jobs(root, shlex.split(options.cc), shlex.split(options.cxx), options.quick))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for header, what, answer in pool.map(compile_alone, work):
            if answer.returncode != 0:
                failed += 1
                print(f"{header.relative_to(root)} does not compile alone as {what}:\n{answer.stderr}")
    print(f"headers: {len(work)} compilations, {failed} failed")
    return 1 if failed or not work else 0


if __name__ == "__main__":
    sys.exit(main())
