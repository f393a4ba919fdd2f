"""Which releases of torch this backend is written for."""

from __future__ import annotations

import re

OLDEST = (2, 6)
NEWEST = (2, 14)


def release(version: str) -> tuple[int, int]:
    """(0, 0) for a text that is no version."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)


def holds_works(version: str) -> bool:
    """Whether C++ of this release keeps the Python part of a work that it holds."""
    return release(version) >= (2, 7)


def check_version(version: str) -> None:
    """Raises ImportError for a release outside the range."""
    if not OLDEST <= release(version) <= NEWEST:
        raise ImportError(
            f"horing.torch works with torch {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}, "
            f"and this is torch {version}"
        )
