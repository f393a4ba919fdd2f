#!/usr/bin/env python3
"""usage: check_printed_examples.py [--write] PROGRAM... -- PAGE...

A page's indented blocks are of three kinds, and nothing else:
  compared      what stands below `$ COMMAND` is what the command prints, where COMMAND is one of the PROGRAMs
  illustration  the comment <!-- illustration: WHY --> stands before the block: it is different each time, or
                no command prints it
  input         nothing is printed in it: commands alone, or code
Commands run at the top of the checkout, so that they may name files in it.
Fails where what a command prints is something else now, and where a block is of no kind: output that no command
here prints must be marked. --write mends what is compared. A PAGE may be a folder: all .md files in it and below.
"""
import difflib
import pathlib
import re
import shlex
import subprocess
import sys

INDENT = "    "
MARK = re.compile(r"<!-- illustration: .+ -->$")
# How a block begins in which nothing is printed: a path or program that is called, a variable, or code.
INPUT = re.compile(r"(\w[\w.-]*/|#include |(c\+\+|meson|ninja|horing|paro|torchrun|srun|printf|export) |[A-Z_]+=|.*[{;](\s+//.*)?$)")


class Example:
    """A command in a block, and the lines printed below it."""

    def __init__(self, lines, at, end):
        command = lines[at].strip()[2:]
        while command.endswith("\\"):
            at += 1
            command = command[:-1] + lines[at].strip()
        self.words = shlex.split(command, comments=True)
        self.program = pathlib.Path(self.words[0]).name
        self.begin = self.end = at + 1
        # Up to the next command or the block's end; empty lines in between belong to it.
        for number in range(self.begin, end):
            if lines[number].strip().startswith("$ "):
                break
            if lines[number].strip():
                self.end = number + 1

    def printed_now(self, programs, folder):
        run = subprocess.run([programs[self.program], *self.words[1:]], stdin=subprocess.DEVNULL, cwd=folder,
                             stdout=subprocess.PIPE, text=True, timeout=120, check=False)
        return run.returncode, [(INDENT + line).rstrip() for line in run.stdout.rstrip("\n").split("\n")]


class Block:
    """Indented lines of a page, from `begin` on, up to `end`."""

    def __init__(self, lines, begin):
        self.begin = self.end = begin
        for number in range(begin, len(lines)):
            if lines[number].strip() and not lines[number].startswith(INDENT):
                break
            if lines[number].strip():
                self.end = number + 1
        before = [line for line in lines[:begin] if line.strip()]
        self.marked = bool(before) and MARK.match(before[-1].strip()) is not None
        self.commands = [Example(lines, at, self.end) for at in range(self.begin, self.end)
                         if lines[at].startswith(INDENT + "$ ")]
        self.printing = [one for one in self.commands if one.end > one.begin]
        first = lines[begin].strip()
        self.input = not self.printing and (first.startswith("$ ") or INPUT.match(first) is not None)


def checkout_of(page):
    """Where a page's commands run: at the top of its checkout, or beside it where there is none."""
    parents = page.resolve().parents
    return next((folder for folder in parents if (folder / "meson.build").exists()), parents[0])


def blocks_of(lines):
    blocks = []
    for at, line in enumerate(lines):
        begins = line.startswith(INDENT) and line.strip() and (at == 0 or not lines[at - 1].strip())
        if begins and (not blocks or at >= blocks[-1].end):
            blocks.append(Block(lines, at))
    return blocks


class Page:
    """Problems found, and how many blocks are of which kind."""

    def __init__(self, path, programs):
        self.path = path
        self.programs = programs
        self.lines = path.read_text().split("\n")
        self.problems = []
        self.differing = 0
        self.counts = dict.fromkeys(("compared", "illustration", "input"), 0)
        blocks = blocks_of(self.lines)
        marks = sum(MARK.match(line.strip()) is not None for line in self.lines)
        if marks != sum(block.marked for block in blocks):
            self.problems.append(f"{path}: a mark of an illustration that stands before no block")
        if any(line.startswith("```") for line in self.lines):
            self.problems.append(f"{path}: a block between ```; indent it by 4 instead, so that it is checked")
        for block in reversed(blocks):  # from the end: mending one changes the numbers of the lines below
            self.look_at(block)

    def look_at(self, block):
        if block.marked:
            self.counts["illustration"] += 1
        elif block.printing:
            self.compare(block)
        elif block.input:
            self.counts["input"] += 1
        else:
            self.mark_wanted(block, "is neither a command or code nor printed below a command")

    def mark_wanted(self, block, why):
        self.problems.append(f"{self.path}:{block.begin + 1}: this block {why}; if it is to be so, put "
                             "<!-- illustration: WHY --> before it")

    def compare(self, block):
        self.counts["compared"] += 1
        for example in reversed(block.printing):
            if example.program not in self.programs:
                self.mark_wanted(block, f"has what {example.program} prints, which is not compared")
                continue
            printed = [line.rstrip() for line in self.lines[example.begin:example.end]]
            status, now = example.printed_now(self.programs, checkout_of(self.path))
            if status != 0:
                self.problems.append(f"{self.path}:{example.begin}: this command ends with status {status}")
            elif printed != now:
                self.differing += 1
                command = " ".join(example.words)
                print("\n".join(difflib.unified_diff(printed, now, f"{self.path}, below $ {command}",
                                                     "what it prints now", lineterm="")))
                self.lines[example.begin:example.end] = now


def pages_of(names):
    for path in map(pathlib.Path, names):
        yield from sorted(path.rglob("*.md")) if path.is_dir() else [path]


def main(arguments):
    write = arguments[0] == "--write"
    middle = arguments.index("--")
    programs = {path.name: path.resolve() for path in map(pathlib.Path, arguments[int(write):middle])}
    pages = [Page(path, programs) for path in pages_of(arguments[middle + 1:])]
    for page in pages:
        if write and page.differing:
            page.path.write_text("\n".join(page.lines))
        print("".join(problem + "\n" for problem in page.problems), end="")
    counts = {kind: sum(page.counts[kind] for page in pages) for kind in pages[0].counts}
    problems = sum(len(page.problems) for page in pages)
    differing = sum(page.differing for page in pages)
    print(f"{len(pages)} pages: {counts['compared']} blocks compared, {counts['illustration']} illustrations, "
          f"{counts['input']} of input; {differing} examples differ{', mended' if write else ''}, "
          f"{problems} problems")
    if counts["compared"] == 0:
        print("No page has an example that can be compared: is the pattern wrong?")
    return 0 if counts["compared"] and not problems and (write or not differing) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
