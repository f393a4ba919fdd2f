#!/usr/bin/env python3
"""clang-tidy over many files at once, skipping those that were clean when last checked.

usage: tidy.py [--without CHECKS] BUILD FILE...
       tidy.py [--without CHECKS] BUILD --folders FOLDER...

--folders takes what the build compiles of these folders of the tree. In a build with unity=on that is
several files at once, in a quarter of the time.

A file's result depends on its text and that of all files of this tree that it includes, its compile
command, the checks and the tool's version: their hash names an empty file under BUILD/tidy when
clang-tidy found nothing. Headers of the system are taken to stay what they are.
"""
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
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


class Includes:
    """The files of this tree that a file includes, found by their names: conditions do not count."""

    LINE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)

    def __init__(self, root):
        self.root = root
        self.files = {}  # path: (contents' hash, names that it includes)

    def read(self, path):
        if path not in self.files:
            text = pathlib.Path(path).read_bytes()
            self.files[path] = hashlib.sha256(text).digest(), [
                os.fsdecode(name) for name in self.LINE.findall(text)]
        return self.files[path]

    @functools.cache  # noqa: B019  (one object, which lives as long as the program)
    def find(self, name, folders):
        for folder in folders:
            found = os.path.normpath(os.path.join(folder, name))
            if found.startswith(self.root) and os.path.isfile(found):
                return found
        return None

    def closure(self, source, folders):
        """Hashes of the source and of all that it includes, in a fixed order."""
        seen = {source}
        waiting = [source]
        while waiting:
            path = waiting.pop()
            for name in self.read(path)[1]:
                found = self.find(name, (os.path.dirname(path), *folders))
                if found is not None and found not in seen:
                    seen.add(found)
                    waiting.append(found)
        return [self.read(path)[0] for path in sorted(seen)]


def include_folders(directory, words):
    folders = []
    for word, following in zip(words, [*words[1:], ""]):
        if word in ("-I", "-iquote", "-isystem"):
            folders.append(following)
        elif word.startswith("-I"):
            folders.append(word[2:])
        elif word.startswith(("-iquote", "-isystem")):
            folders.append(word[7:] if word.startswith("-iquote") else word[8:])
    return [os.path.normpath(os.path.join(directory, folder)) for folder in folders]


def clean_mark(build, source, directory, words, salt, includes):
    digest = hashlib.sha256(salt + source.encode() + b"\0" + " ".join(words).encode())
    for one in includes.closure(source, include_folders(directory, words)):
        digest.update(one)
    return build / "tidy" / digest.hexdigest()


def configuration(build, source):
    """For what the build directory has in the place of a folder's sources: that folder's, or of the next one above."""
    if not pathlib.Path(source).is_relative_to(build):
        return []
    first = re.search(r"#include ?<(.+?)>", pathlib.Path(source).read_text())
    above = pathlib.Path(os.path.normpath(first[1])).parents if first else []
    own = next((folder / ".clang-tidy" for folder in above if (folder / ".clang-tidy").exists()), None)
    return [f"--config-file={own}"] if own else []


def look_at(build, source, commands, salt, checks, includes):
    """(source, how it went, what clang-tidy printed)"""
    directory, words = commands[source]
    mark = clean_mark(build, source, directory, words, salt, includes)
    if mark.exists():
        return source, "unchanged", ""
    quiet = ["--extra-arg=-Wno-unknown-warning-option", *configuration(build, source), *checks]
    answer = subprocess.run(["clang-tidy", "-p", str(build), "--quiet", *quiet, source],
                            capture_output=True, text=True)
    if answer.returncode != 0:
        return source, "failed", answer.stdout + "\n".join(
            line for line in answer.stderr.splitlines() if "warnings generated" not in line)
    mark.touch()
    return source, "clean", ""


def of_folders(commands, build, folders):
    """What is compiled of these folders, also what the build directory has in their place."""
    def path_of(source):
        base = build if pathlib.Path(source).is_relative_to(build) else pathlib.Path.cwd()
        return pathlib.Path(os.path.relpath(source, base))
    return [source for source in sorted(commands)
            if any(path_of(source).is_relative_to(folder) for folder in folders)]


def main():
    arguments = sys.argv[1:]
    checks = []
    if arguments[0] == "--without":
        checks = [f"--checks=-{arguments[1]}"]
        arguments = arguments[2:]
    build = pathlib.Path(arguments[0]).resolve()
    (build / "tidy").mkdir(exist_ok=True)
    commands = read_commands(build)
    if arguments[1] == "--folders":
        wanted = of_folders(commands, build, arguments[2:])
    else:
        wanted = [os.path.abspath(name) for name in arguments[1:]]
    # What is not built here (fuzz targets, absent libraries) has no compile command.
    sources = [source for source in wanted if source in commands]
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    configurations = sorted(pathlib.Path(".").glob("**/.clang-tidy"))
    salt = version + " ".join(checks).encode() + b"".join(path.read_bytes() for path in configurations)
    includes = Includes(os.path.abspath(".") + os.sep)
    counts = {"clean": 0, "unchanged": 0, "failed": 0}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for source, how, said in pool.map(
                lambda s: look_at(build, s, commands, salt, checks, includes), sources):
            counts[how] += 1
            if sys.stderr.isatty():
                print(f"\rtidy: {sum(counts.values())} of {len(sources)} files ", end="", file=sys.stderr)
            if said:
                print(f"{os.path.relpath(source)}:\n{said}", flush=True)
    print(f"tidy: {counts['clean']} clean, {counts['unchanged']} unchanged since they were clean, "
          f"{counts['failed']} failed, {len(wanted) - len(sources)} not in this build")
    return 1 if counts["failed"] or not sources else 0


if __name__ == "__main__":
    sys.exit(main())
