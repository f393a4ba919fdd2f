"""Finds libparo and declares what these packages use of its C interface (paro.h) to ctypes. Loaded on first use."""

from __future__ import annotations

import ctypes
import functools
import json
import os
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint32
from pathlib import Path
from typing import Any

import horing
from horing import _library as libhoring


class StrategyRow(ctypes.Structure):
    """One row of libparo's table of strategies (paro_strategy)."""

    _fields_ = [
        ("size", c_size_t),
        ("parameters", c_int),
        ("gradients", c_int),
        ("optimizer", c_int),
        ("letters", c_char_p),
        ("known_as", c_char_p),
    ]


def library_path() -> Path:
    """The libparo that this package uses: PARO_LIBRARY, or the one that came with the package horing.

    Returns:
        A file that exists. It has not been loaded yet.

    Raises:
        ImportError: PARO_LIBRARY names no file, or the package is a source folder that has no library.
    """
    named = os.environ.get("PARO_LIBRARY")
    if named:
        if not os.path.exists(named):
            raise ImportError(f"PARO_LIBRARY={named}: there is no such file")
        return Path(named)
    own = Path(horing.__file__).parent / "lib" / "libparo.so.0"
    if own.exists():
        return own
    raise ImportError(
        f"{own} is missing: this is a source folder, or a broken installation. Install the package (pip install .), or "
        "set PARO_LIBRARY to a built libparo.so.0, and HORING_LIBRARY to the libhoring.so.0 of the same build"
    )


@functools.cache
def library() -> ctypes.CDLL:
    """The library, with its functions declared. It takes the libhoring that the package horing uses.

    Returns:
        libparo, loaded once.

    Raises:
        ImportError: It is missing, is no libparo, or is of another version.
    """
    libhoring.library()
    path = library_path()
    source = f"PARO_LIBRARY={path}" if os.environ.get("PARO_LIBRARY") else str(path)
    try:
        loaded = ctypes.CDLL(str(path))
        for name in ("paro_version", "paro_last_error_message"):
            getattr(loaded, name).restype = c_char_p
    except (OSError, AttributeError) as error:
        raise ImportError(f"{source} cannot be loaded: {error}") from error
    version = loaded.paro_version().decode()
    if not version.startswith(libhoring.INTERFACE + "."):
        raise ImportError(f"{source} is PaRO {version}; this package needs {libhoring.INTERFACE}.x")
    loaded.paro_strategy_count.restype = c_uint32
    loaded.paro_strategy_at.argtypes = [c_uint32, POINTER(StrategyRow)]
    loaded.paro_plan.argtypes = [c_char_p, POINTER(c_char_p)]
    loaded.paro_strategy_letters.argtypes = [c_char_p, ctypes.c_char * 4, c_size_t]
    return loaded


def strategy_rows() -> list[StrategyRow]:
    """All strategies, in libparo's order.

    Returns:
        Rows whose texts live as long as the library.
    """
    rows = []
    for number in range(library().paro_strategy_count()):
        row = StrategyRow(size=ctypes.sizeof(StrategyRow))
        _check(library().paro_strategy_at(number, ctypes.byref(row)))
        rows.append(row)
    return rows


def strategy_letters(text: str) -> str:
    """The three letters of a strategy.

    Args:
        text: Letters in any case, or the name of a system that users know ("zero2", "hsdp").

    Returns:
        As "NGG".

    Raises:
        ValueError: It is no strategy. The text lists those that there are, or names the rule that it breaks.
    """
    letters = ctypes.create_string_buffer(4)
    _check(library().paro_strategy_letters(text.encode(errors="replace"), letters, len(letters)))
    return letters.value.decode()


def plan(request: dict[str, Any]) -> dict[str, Any]:
    """What the planner answers (paro_plan): memory and time of every strategy, and which one to take.

    Args:
        request: The options of `paro plan` with _ for -: texts, numbers, and `no_overlap` as a bool.

    Returns:
        What `paro plan --json` prints: memory in bytes, times in seconds.

    Raises:
        ImportError: libparo is missing, or of another version.
        ValueError: A key or a value is not known. The text names it and says what it takes.
    """
    answer = c_char_p()
    _check(library().paro_plan(json.dumps(request).encode(), ctypes.byref(answer)))
    assert answer.value is not None
    answered: dict[str, Any] = json.loads(answer.value)
    return answered


def _check(status: int) -> None:
    if status != 0:
        message = library().paro_last_error_message().decode(errors="replace")
        raise ValueError(message.removeprefix("invalid argument: "))
