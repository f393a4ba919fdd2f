#!/usr/bin/env python3
"""clang-tidy over many files at once, skipping those that were clean when last looked at.

usage: tidy.py [--without CHECKS] BUILD FILE...

A file's result depends on its preprocessed text, its compile command, the checks and the tool's
version: their hash names an empty file under BUILD/tidy when clang-tidy found nothing.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys

GCC_ONLY = ("-Wno-restrict", "-Wno-maybe-uninitialized", "-Wno-stringop-overflow", "-Wno-tsan")


def read_commands(build):
    """Compile command by absolute source path, without the compiler's name cache and -o."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        source = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
        if pathlib.Path(words[0]).name == "ccache":
            words = words[1:]
        kept = []
        skip = False
        for word in words:
            if skip or word in GCC_ONLY or word in ("-MD", "-c"):
                skip = False
            elif word in ("-o", "-MF", "-MQ"):
                skip = True
            else:
                kept.append(word)
        commands.setdefault(source, (entry["directory"], kept))
    return commands


def clean_mark(build, source, directory, words, salt):
    compiler = "clang" if source.endswith(".c") else "clang++"
    text = subprocess.run([compiler, *words[1:], "-E"], cwd=directory, capture_output=True)
    if text.returncode != 0:
        return None
    digest = hashlib.sha256(salt + source.encode() + b"\0" + " ".join(words).encode() + text.stdout)
    return build / "tidy" / digest.hexdigest()


def look_at(build, source, commands, salt, checks):
    """(source, how it went, what clang-tidy said)"""
    directory, words = commands[source]
    mark = clean_mark(build, source, directory, words, salt)
    if mark is not None and mark.exists():
        return source, "unchanged", ""
    quiet = ["--extra-arg=-Wno-unknown-warning-option", *checks]
    answer = subprocess.run(["clang-tidy", "-p", str(build), "--quiet", *quiet, source],
                            capture_output=True, text=True)
    if answer.returncode != 0:
        return source, "failed", answer.stdout + "\n".join(
            line for line in answer.stderr.splitlines() if "warnings generated" not in line)
    if mark is not None:
        mark.touch()
    return source, "clean", ""


def main():
    arguments = sys.argv[1:]
    checks = []
    if arguments[0] == "--without":
        checks = [f"--checks=-{arguments[1]}"]
        arguments = arguments[2:]
    build = pathlib.Path(arguments[0]).resolve()
    (build / "tidy").mkdir(exist_ok=True)
    commands = read_commands(build)
    wanted = [os.path.abspath(name) for name in arguments[1:]]
    # What is not built here (fuzz targets, absent libraries) has no compile command.
    sources = [source for source in wanted if source in commands]
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    configurations = sorted(pathlib.Path(".").glob("**/.clang-tidy"))
    salt = version + " ".join(checks).encode() + b"".join(path.read_bytes() for path in configurations)
    counts = {"clean": 0, "unchanged": 0, "failed": 0}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for source, how, said in pool.map(
                lambda s: look_at(build, s, commands, salt, checks), sources):
            counts[how] += 1
            if said:
                print(f"{os.path.relpath(source)}:\n{said}", flush=True)
    print(f"tidy: {counts['clean']} clean, {counts['unchanged']} unchanged since they were clean, "
          f"{counts['failed']} failed, {len(wanted) - len(sources)} not in this build")
    return 1 if counts["failed"] or not sources else 0


if __name__ == "__main__":
    sys.exit(main())
