#!/usr/bin/env python3
"""usage: docstrings.py FOLDER

Fails where pydoclint (its options are in pyproject.toml) finds a fault in the docstring of something public: an
argument, a result or an error that it lacks or has too many. That each has a docstring is ruff's to check.

Two things pydoclint cannot leave out itself:
- what is private, where a docstring says only what its reader needs;
- DOC502 and DOC503: to a caller it is the same whether a function raises an error itself or something that it calls
  does, so more may be documented than is raised here. That nothing raised here is missing, ruff checks (DOC501).
"""
import re
import subprocess
import sys

MORE_THAN_RAISED = ("DOC502", "DOC503")
VIOLATION = re.compile(r"\s*\d+: (DOC\d+): (?:\w+ )?`([^`]*)`")
ENDED_WELL = (0, 1)  # without violations, and with some


def is_private(name: str) -> bool:
    return any(part.startswith("_") and part != "__init__" for part in name.split("."))


def main() -> None:
    done = subprocess.run(["pydoclint", "--quiet", "--config", "pyproject.toml", sys.argv[1]], capture_output=True, text=True)
    path, bad = "", 0
    for line in (done.stdout + done.stderr).splitlines():
        found = VIOLATION.match(line)
        if found is None:
            path = line.strip() or path
        elif found[1] not in MORE_THAN_RAISED and not is_private(found[2]):
            print(f"{path}:{line.strip()}")
            bad += 1
    if done.returncode not in ENDED_WELL:
        print(done.stdout + done.stderr)
    sys.exit(1 if bad or done.returncode not in ENDED_WELL else 0)


if __name__ == "__main__":
    main()
