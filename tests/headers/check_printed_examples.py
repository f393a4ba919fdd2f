#!/usr/bin/env python3
"""usage: check_printed_examples.py [--write] PROGRAM... -- PAGE...

Fails unless what the pages print after `$ COMMAND` is what the command prints, for commands whose
output is the same everywhere: NAME SUBCOMMAND below, of a PROGRAM with that name. --write mends the pages.
"""
import difflib
import pathlib
import re
import shlex
import subprocess
import sys

ALWAYS_THE_SAME = {"paro plan", "paro strategies", "horing plan", "horing tune"}


class Example:
    """A command and the lines printed below it, in an indented block of a page."""

    def __init__(self, lines, at):
        self.indent = re.match(" *", lines[at])[0]
        command = lines[at].strip()[2:]
        while command.endswith("\\"):
            at += 1
            command = command[:-1] + lines[at].strip()
        self.words = shlex.split(command)
        self.begin = self.end = at + 1
        # Up to the next command, or the text that goes on; empty lines in between belong to it.
        for number in range(self.begin, len(lines)):
            line = lines[number]
            if line.strip() and (not line.startswith(self.indent) or line.strip().startswith("$ ")):
                break
            if line.strip():
                self.end = number + 1

    def is_for(self, programs):
        return " ".join(self.words[:2]) in ALWAYS_THE_SAME and self.words[0] in programs

    def printed_now(self, programs):
        run = subprocess.run([programs[self.words[0]], *self.words[1:]], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, text=True, timeout=120, check=True)
        return [(self.indent + line).rstrip() for line in run.stdout.rstrip("\n").split("\n")]


def examples_of(lines):
    return [Example(lines, at) for at, line in enumerate(lines) if re.match(r" {4,}\$ ", line)]


def checked(page, programs, write):
    """How many examples were compared, and how many differed."""
    lines = page.read_text().split("\n")
    compared = differing = 0
    for example in reversed([one for one in examples_of(lines) if one.is_for(programs)]):
        compared += 1
        shown = [line.rstrip() for line in lines[example.begin:example.end]]
        now = example.printed_now(programs)
        if shown != now:
            differing += 1
            command = " ".join(example.words)
            print("\n".join(difflib.unified_diff(shown, now, f"{page}, below $ {command}",
                                                 "what it prints now", lineterm="")))
            lines[example.begin:example.end] = now
    if write and differing:
        page.write_text("\n".join(lines))
    return compared, differing


def main(arguments):
    write = arguments[0] == "--write"
    middle = arguments.index("--")
    programs = {pathlib.Path(name).name: name for name in arguments[int(write):middle]}
    counts = [checked(pathlib.Path(name), programs, write) for name in arguments[middle + 1:]]
    compared, differing = (sum(column) for column in zip(*counts))
    print(f"{compared} printed examples, {differing} differ" + (", mended" if write else ""))
    if compared == 0:
        print("No page has an example that can be compared: is the pattern wrong?")
    return 0 if compared and (write or not differing) else 1


sys.exit(main(sys.argv[1:]))
