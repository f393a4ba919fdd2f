"""What was measured as rows, for docs/results/data: one file with a row for each size, one with a row for each library."""

import csv
import os

from comparison.model import OURS
from measure.report import bytes_text, save_rows
from measure.statistics import Spread

SUMMARY = (
    "run",
    "date",
    "cluster",
    "collective",
    "size",
    "limit ms",
    "HO-Ring ms",
    "share of the limit",
    "spread",
    "rounds",
    "flat ring ms",
    "flat rings on all NICs ms",
    "best other library",
    "its ms",
    "times as fast",
)
LIBRARIES = ("run", "date", "cluster", "collective", "size", "library", "ms", "share of the limit")
NAMES = {
    f"{OURS} auto": OURS,
    f"{OURS} ring": "flat ring, our library",
    f"{OURS} multi_ring": "flat rings on all NICs, our library",
}
LIMIT, LIMIT_FROM = "limit of the links", 16384  # bytes: below, what it would be is not a link's


def ms(microseconds):
    return f"{microseconds / 1e3:.4g}"


def cells(record, scenario, collective, size, name):
    """Time and share of the limit of a configuration, empty where there is none."""
    cell = record.cell(scenario.name, name, collective, size)
    share = record.share(scenario, name, collective, size)
    return (ms(cell.median) if cell else "", "" if share is None or size < 1024 else f"{share:.3f}")


def summary(record, scenario, collective, size):
    """A row without the first four columns, or None where ours was not measured."""
    ours: Spread | None = record.ours(scenario, collective, size)
    if ours is None:
        return None
    limit, best = record.limit_us(scenario, collective, size), record.best_peer(scenario, collective, size)
    others = [cells(record, scenario, collective, size, f"{OURS} {name}")[0] for name in ("ring", "multi_ring")]
    return (
        bytes_text(size),
        ms(limit) if limit else "",
        *cells(record, scenario, collective, size, f"{OURS} auto"),
        f"{(ours.most - ours.least) / ours.median * 100:.0f} %",
        ours.rounds,
        *others,
        *((best[0], ms(best[1].median), f"{best[1].median / ours.median:.2f}") if best else ("", "", "")),
    )


def libraries(record, scenario, collective, size):
    """Rows without the first four columns."""
    rows = []
    for name in record.configs(scenario.name, collective):
        time, share = cells(record, scenario, collective, size, name)
        rows += [(bytes_text(size), NAMES.get(name, name), time, share)] if time else []
    limit = record.limit_us(scenario, collective, size)
    return ([(bytes_text(size), LIMIT, ms(limit), "1")] if rows and limit and size >= LIMIT_FROM else []) + rows


def write(record, scenarios, prefix, run):
    """PREFIX.csv and PREFIX-libraries.csv; rows of another run that they have stay."""
    of_each, of_all = [], []
    for scenario in scenarios.values():
        for collective in scenario.collectives:
            first = (run, record.facts["date"], scenario.title, collective)
            for size in scenario.sizes:
                row = summary(record, scenario, collective, size)
                of_each += [(*first, *row)] if row else []
                of_all += [(*first, *each) for each in libraries(record, scenario, collective, size)]
    for path, head, rows in ((f"{prefix}.csv", SUMMARY, of_each), (f"{prefix}-libraries.csv", LIBRARIES, of_all)):
        kept = []
        if os.path.exists(path):
            with open(path, encoding="utf-8", newline="") as file:
                kept = [row for row in list(csv.reader(file))[1:] if row[0] != run]
        save_rows(path, head, [*kept, *rows])
