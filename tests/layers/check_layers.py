#!/usr/bin/env python3
"""Fails on every #include between folders that layers.json does not permit.

usage: check_layers.py [ROOT]
       check_layers.py --markdown: the table as docs/design/architecture.md has it

An include is looked up as the compiler would: "quoted" beside the including file, then, like
<angled>, under include/, src/, plugin/ and runtime/, and quoted under tools/ and tests/support/ too.
What is found nowhere in the tree is another library's.
"""
import json
import os
import pathlib
import re
import sys

SOURCES = (".h", ".hpp", ".c", ".cpp", ".cc", ".cu", ".cuh")
TOP_FOLDERS = ("include", "src", "plugin", "runtime", "tools", "tests")
SEARCHED = ("include", "src", "plugin", "runtime")
SEARCHED_IF_QUOTED = ("tools", "tests/support")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def under(path, folder):
    return path == folder or path.startswith(folder + "/")


def folder_of(path, folders):
    """The longest folder of the table that holds this path; include/horing.h belongs to include/horing."""
    stem = os.path.splitext(path)[0]
    matches = [f for f in folders if under(path, f) or under(stem, f)]
    return max(matches, key=len, default=None)


def find_include(root, including, quoted, name):
    beside = (os.path.dirname(including),) if quoted else ()
    for base in (*beside, *SEARCHED, *(SEARCHED_IF_QUOTED if quoted else ())):
        candidate = os.path.normpath(os.path.join(base, name))
        if not candidate.startswith("..") and (root / candidate).is_file():
            return candidate
    return None


def sources(root):
    for top in TOP_FOLDERS:
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SOURCES and path.is_file():
                yield str(path.relative_to(root))


def permitted(target, allowed, folders):
    """A row opens its own folder; a name without a row (src, runtime) opens all below it."""
    return any(target == folder or (folder not in folders and under(target, folder)) for folder in allowed)


def markdown(table):
    lines = ["| folder | its job | may use |", "|---|---|---|"]
    for folder, row in table["folders"].items():
        lines.append(f"| {folder} | {row['job']} | {', '.join(row['uses'])} |")
    return "\n".join(lines) + "\n"


def check(root, table):
    """The violations, one line each, and how many includes were looked at."""
    folders = table["folders"]
    violations = []
    count = 0
    for source in sources(root):
        own = folder_of(source, folders)
        if own is None:
            violations.append(f"{source}: its folder is not in layers.json")
            continue
        free = [] if own in table["public"] else table["all_but_public_may_use"]
        allowed = [own, *folders[own]["uses"], *free]
        for number, line in enumerate((root / source).read_text(errors="replace").splitlines(), 1):
            match = INCLUDE.match(line)
            target = match and find_include(root, source, match[1] == '"', match[2])
            if not target:
                continue
            count += 1
            if not permitted(folder_of(target, folders) or target, allowed, folders):
                violations.append(
                    f"{source}:{number}: {own} may not include {target}; it may use "
                    + (", ".join(allowed[1:]) or "nothing"))
    return violations, count


def main():
    table = json.loads((pathlib.Path(__file__).parent / "layers.json").read_text())
    if sys.argv[1:] == ["--markdown"]:
        print(markdown(table), end="")
        return 0
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
    violations, count = check(root, table)
    page = root / "docs" / "design" / "architecture.md"
    if markdown(table) not in page.read_text():
        violations.append(f"{page.relative_to(root)}: its table of folders is not what "
                          "tests/layers/check_layers.py --markdown prints")
    empty = [folder for folder in table["folders"] if not (root / folder).exists()
             and not list(root.glob(folder + ".*"))]
    violations += [f"layers.json: {folder} has no code" for folder in empty]
    for violation in violations:
        print(violation)
    print(f"layers: {count} includes between project files, {len(violations)} not permitted")
    return 1 if violations or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
