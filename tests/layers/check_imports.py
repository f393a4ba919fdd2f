#!/usr/bin/env python3
"""Fails where modules under python/ import each other in a circle, or against the order of the packages,
and where a program under tools/ imports one of tests/.

usage: check_imports.py [ROOT]

Every import counts: one inside a function, and one for type checkers alone too.
"""
import ast
import graphlib
import pathlib
import sys

# A package may import from itself and from those that it names.
ORDER = {
    "horing": [],
    "horing.torch": ["horing", "torch"],
    "paro": ["horing"],
    "paro.torch": ["paro", "horing", "horing.torch", "torch"],
}


def modules_of(folder):
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def package_of(module, packages):
    fitting = [each for each in packages if module == each or module.startswith(each + ".")]
    return max(fitting, key=len, default=module.partition(".")[0])


def imports_of(path, modules):
    """What a file imports: the module where there is one, else the package that has the name."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield (inner if inner in modules else node.module), node.lineno


def is_program(path):
    if path.suffix:
        return path.suffix == ".py"
    with path.open("rb") as file:
        first = file.readline()
    return first.startswith(b"#!") and b"python" in first


def tests_in_tools(root):
    """Imports of tests, or of a module that lies there alone, by programs and modules of tools/."""
    programs = [path for path in sorted((root / "tools").rglob("*")) if path.is_file() and is_program(path)]
    of_tests = {path.stem for path in (root / "tests").rglob("*.py")} | {"tests"}
    of_tests -= {path.stem for path in programs}
    for path in programs:
        for target, line in imports_of(path, {}):
            if (target or "").partition(".")[0] in of_tests:
                yield f"{path.relative_to(root)}:{line}: tools may not import {target}, which is of tests"


def check(root):
    modules = modules_of(root / "python")
    problems, edges = [], {}
    for module, path in modules.items():
        own = package_of(module, ORDER)
        for target, line in imports_of(path, modules):
            package = package_of(target, ORDER)
            if target in modules:
                edges.setdefault(module, set()).add(target)
            known = package in ORDER or package == "torch"
            if known and own != package and package not in ORDER[own]:
                problems.append(f"{path.relative_to(root)}:{line}: {own} may not import {target} (ORDER in {__file__})")
    try:
        graphlib.TopologicalSorter(edges).prepare()
    except graphlib.CycleError as error:
        problems.append("modules import each other: " + " <- ".join(error.args[1]))
    problems += tests_in_tools(root)
    return problems, sum(map(len, edges.values()))


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
    problems, count = check(root)
    for each in problems:
        print(each)
    if count == 0:
        print(f"no import was found under {root}/python")
    sys.exit(1 if problems or count == 0 else 0)


if __name__ == "__main__":
    main()
