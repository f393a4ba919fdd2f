"""Sizes and times as text, tables, files of measurements."""

import csv
import json
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

UNITS = (("G", 30), ("M", 20), ("K", 10))
KIB, MIB = 1 << 10, 1 << 20


def parse_bytes(text: str) -> int:
    """"64", "8K", "4M", "1G" in powers of 1024."""
    text = text.strip().upper()
    shift = dict(UNITS).get(text[-1:])
    return int(text) if shift is None else int(text[:-1]) << shift


def parse_sizes(text: str) -> tuple[int, ...]:
    """Sizes with commas between; ValueError where there is another thing."""
    sizes = tuple(parse_bytes(size) for size in text.split(","))
    if min(sizes) < 1:
        raise ValueError(text)
    return sizes


def bytes_text(size: int) -> str:
    for unit, shift in UNITS:
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}iB"
    return f"{size} B"


def time_text(microseconds: float) -> str:
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:.3f} s"
    if microseconds >= 1e3:
        return f"{microseconds / 1e3:.3g} ms" if microseconds < 1e5 else f"{microseconds / 1e3:.0f} ms"
    return f"{microseconds:.1f} us"


def axis_time_text(microseconds: float) -> str:
    if microseconds >= 1e6:
        return f"{microseconds / 1e6:g} s"
    return f"{microseconds / 1e3:g} ms" if microseconds >= 1e3 else f"{microseconds:g} us"


def check(holds: bool) -> str:
    return "[x]" if holds else "[ ]"


def table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> list[str]:
    """Lines of Markdown."""
    lines = ["| " + " | ".join(map(str, head)) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]


def text_table(head: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[int] = (0,)) -> list[str]:
    """Lines for a terminal: columns as wide as they must be, `left` aligned to the left, a rule below the head."""
    lines = [tuple(head), *(tuple(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    texts = ["  ".join(cell.ljust(width) if i in left else cell.rjust(width)
                       for i, (cell, width) in enumerate(zip(line, widths))).rstrip() for line in lines]
    return [texts[0], "-" * max(map(len, texts)), *texts[1:]]


def load(path: object, keys: Sequence[str], command: str) -> dict[str, Any]:
    """What `command` has measured; a file that lacks a key ends the program."""
    try:
        content = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        if not isinstance(content, dict) or not all(key in content for key in keys):
            raise ValueError(f"not all of {', '.join(keys)} are there")
        return content
    except (OSError, ValueError) as error:
        raise SystemExit(
            f"{command}: {path} is not what {command} has measured ({error}): remove it, or measure anew") from error


def save_rows(path: object, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """As CSV, from which tools/results makes tables and pictures."""
    with open(path, "w", encoding="utf-8", newline="") as file:  # type: ignore[arg-type]
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


def picture_comment(name: str, what: str, title: str) -> str:
    """What shows a picture on a page of Markdown, and has `tools/results --folder` draw it; `what`: as its --help says."""
    return f"![{title}]({name})\n\n<!-- picture {name} | {what} | title {title} -->\n"


def save(path: object, content: Any) -> None:
    pathlib.Path(path).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def folder_for(path: object, option: str) -> str:
    """Makes the folder of a file that will be written; the message where that is not possible, or ""."""
    folder = os.path.dirname(os.path.abspath(path))
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        return f"{option}: {error}"
    return "" if os.access(folder, os.W_OK) else f"{option}: {folder} cannot be written to"
