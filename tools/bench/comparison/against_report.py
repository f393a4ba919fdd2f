"""Results and tables of two builds, from what both measured round by round. Nothing here runs anything."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from measure.report import MIB, bytes_text, check, table, time_text
from measure.statistics import LEVEL, Ratio, paired_ratio

TIME_LEAST = 0.99  # from 1 MiB on: the other's time over this one's
CPU_MOST = 1.03  # this one's processor time over the other's
CALLS = 10000


@dataclass(frozen=True)
class Line:
    link: str
    collective: str
    what: str
    is_time: bool
    this: float | None  # medians: us, or processor seconds
    other: float | None
    ratio: Ratio | None
    rule: str
    passed: bool


def median_of(values: Sequence[float | None]) -> float | None:
    some = [value for value in values if value is not None]
    return median(some) if some else None


def time_line(job: dict[str, Any], size: int) -> Line:
    # Keys of JSON are text, and this reads reports too.
    this, other = ([result["times_us"].get(size, result["times_us"].get(str(size))) for result in job[side]]
                   for side in ("this", "other"))
    ratio = paired_ratio(other, this)
    if size >= MIB:
        rule, passed = f"median at least {TIME_LEAST}", ratio is not None and ratio.median >= TIME_LEAST
    else:
        rule, passed = "interval reaches 1", ratio is not None and ratio.interval.high >= 1
    return Line(job["link"], job["collective"], bytes_text(size), True, median_of(this), median_of(other), ratio, rule,
                passed)


def cpu_line(job: dict[str, Any]) -> Line | None:
    """Of all processors in the whole job, its start and its check of the results included."""
    if job["kind"] == "calls":
        size, count = job["runs"][0]
        what, share = f"{CALLS:,} calls of {bytes_text(size)}", count / CALLS
    elif job["kind"] == "large":
        what, share = "GB", sum(size * count for size, count in job["runs"]) / 1e9
    else:
        return None
    this, other = ([None if result["failure"] else result["cpu_s"] / share for result in job[side]]
                   for side in ("this", "other"))
    ratio = paired_ratio(this, other)
    return Line(job["link"], job["collective"], what, False, median_of(this), median_of(other), ratio,
                f"median at most {CPU_MOST}", ratio is not None and ratio.median <= CPU_MOST)


def lines_of(jobs: Sequence[dict[str, Any]]) -> list[Line]:
    times = [time_line(job, size) for job in jobs for size, _ in job["runs"]]
    return times + [line for line in map(cpu_line, jobs) if line]


def cells(line: Line) -> Iterator[str]:
    yield from (line.link, line.collective, line.what)
    for value in (line.this, line.other):
        yield "-" if value is None else time_text(value) if line.is_time else f"{value:.3f}"
    if line.ratio is None:
        yield from ("-", "-", "0")
    else:
        yield f"{line.ratio.median:.3f}"
        yield f"{line.ratio.interval.low:.3f} to {line.ratio.interval.high:.3f}"
        yield str(line.ratio.pairs)
    yield f"{check(line.passed)} {line.rule}"


def difference_lines(builds: dict[str, dict[str, Any]]) -> list[str]:
    this, other = builds["this"], builds["other"]
    lines = [f"this build: {this['version']}; the other: {other['version']}" +
             ("" if this["version"] == other["version"] else " (versions differ)")]
    if this["folder"] == other["folder"]:
        lines.append("both are the same build")
    lines += [f"how {name} build was configured is not known: it has no meson-info"
              for name, build in (("this", this), ("the other", other)) if not build["options"]]
    for name in sorted({*this["options"]} & {*other["options"]}):
        values = [build["options"].get(name) for build in (this, other)]
        if values[0] != values[1]:
            lines.append(f"built differently: {name} is {values[0]!r}, in the other build {values[1]!r}")
    return lines


def failure_lines(jobs: Sequence[dict[str, Any]]) -> list[str]:
    lines = [f"- {side} build, {job['link']}, {job['collective']}, {job['kind']}, round {number}: {result['failure']}"
             for job in jobs for side in ("this", "other") for number, result in enumerate(job[side], 1)
             if result["failure"]]
    return ["", "What failed:", "", *lines] if lines else []


def page(facts: dict[str, Any], lines: Sequence[Line], jobs: Sequence[dict[str, Any]]) -> list[str]:
    missed = [line for line in lines if not line.passed]
    levels = [line.ratio.interval.level for line in lines if line.ratio]
    low = min(levels, default=0.0)
    interval = "95 % interval" if low >= LEVEL else f"{low:.0%} interval (too few rounds for 95 %)"
    text = [f"Measured {facts['date']} with `{facts['command'].strip()}`: {facts['rounds']} rounds, in each both "
            f"builds, the one and the other first in turn; {facts['cores']} cores, medians.", ""]
    text += [f"- {line}" for line in difference_lines(facts["builds"])]
    text += [f"- {link}: `{command}`" for link, command in facts["links"].items()]
    path = "CollNet, time" if facts["plugin"] else "time"
    for is_time, title, ratio in ((True, f"### Times ({path} of one operation)", "other / this (above 1: faster now)"),
                                  (False, "### Processor seconds, of whole jobs", "this / other (below 1: less now)")):
        rows = [list(cells(line)) for line in lines if line.is_time == is_time]
        head = ("link", "collective", "of" if is_time else "per", "this", "other", ratio, interval, "pairs", "verdict")
        text += ["", title, "", *table(head, rows)]
    text += failure_lines(jobs)
    summary = f"{len(lines) - len(missed)} of {len(lines)} lines met"
    return [*text, "", summary + (": missed " + "; ".join(
        f"{line.link}, {line.collective}, {line.what}" for line in missed) if missed else "")]
