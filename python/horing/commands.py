"""The programs of this installation, started under their own names."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn


def _run(name: str) -> NoReturn:
    program = Path(__file__).parent / "bin" / name
    try:
        os.execv(program, [name, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: {program} cannot be started ({error.strerror}); install horing again")


def horing() -> NoReturn:
    """Becomes the program `horing` with this program's arguments. Never returns."""
    _run("horing")


def paro() -> NoReturn:
    """Becomes the program `paro` with this program's arguments. Never returns."""
    _run("paro")


def all_gather_perf() -> NoReturn:
    """Becomes the program `all_gather_perf` with this program's arguments. Never returns."""
    _run("all_gather_perf")


def all_reduce_perf() -> NoReturn:
    """Becomes the program `all_reduce_perf` with this program's arguments. Never returns."""
    _run("all_reduce_perf")


def reduce_scatter_perf() -> NoReturn:
    """Becomes the program `reduce_scatter_perf` with this program's arguments. Never returns."""
    _run("reduce_scatter_perf")
