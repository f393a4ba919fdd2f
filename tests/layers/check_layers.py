#!/usr/bin/env python3
"""Fails on every #include between folders that layers.json does not permit.

usage: check_layers.py [ROOT]

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
        allowed = [own, *folders[own], *free]
        for number, line in enumerate((root / source).read_text(errors="replace").splitlines(), 1):
            match = INCLUDE.match(line)
            target = match and find_include(root, source, match[1] == '"', match[2])
            if not target:
                continue
            count += 1
            if not any(under(folder_of(target, folders) or target, folder) for folder in allowed):
                violations.append(
                    f"{source}:{number}: {own} may not include {target}; it may use "
                    + (", ".join(allowed[1:]) or "nothing"))
    return violations, count


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
    table = json.loads((pathlib.Path(__file__).parent / "layers.json").read_text())
    violations, count = check(root, table)
    for violation in violations:
        print(violation)
    print(f"layers: {count} includes between project files, {len(violations)} not permitted")
    return 1 if violations or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
