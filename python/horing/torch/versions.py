"""Which releases of torch this backend is written for."""

from __future__ import annotations

import re

OLDEST = (2, 6)
NEWEST = (2, 14)


def release(version: str) -> tuple[int, int]:
    """Major and minor number of a release.

    Args:
        version: A text as torch.__version__.

    Returns:
        Both numbers; (0, 0) for a text that is no version.
    """
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)


def holds_works(version: str) -> bool:
    """Whether C++ of a release of torch keeps the Python part of a work that it holds.

    Args:
        version: A text as torch.__version__.

    Returns:
        False up to torch 2.6.
    """
    return release(version) >= (2, 7)


def check_version(version: str) -> None:
    """Checks that this backend is written for a release of torch.

    Args:
        version: A text as torch.__version__.

    Raises:
        ImportError: The release is outside the range.
    """
    if not OLDEST <= release(version) <= NEWEST:
        raise ImportError(
            f"horing.torch works with torch {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}, "
            f"and this is torch {version}"
        )
