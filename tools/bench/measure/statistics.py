"""Statistics of repeated measurements. No assumption about how they are distributed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

LEVEL = 0.95


@dataclass(frozen=True)
class Spread:
    median: float
    least: float
    most: float
    rounds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread | None":
        return cls(median(values), min(values), max(values), len(values)) if values else None


@dataclass(frozen=True)
class Interval:
    """Where a median lies, with a probability of at least `level`."""

    low: float
    high: float
    level: float


def order_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """The narrowest pair of order statistics, as far from one end as from the other, that holds the median with this
    probability: how many of n values are below it is binomial (n, 1/2). Fewer than 6 values reach 95 % with no
    pair; then it is least and most, and the interval's own level shows it."""
    ordered, count = sorted(values), len(values)
    rank, outside = 1, 2 * 0.5**count
    while 2 * (rank + 1) <= count + 1:
        further = outside + 2 * math.comb(count, rank) * 0.5**count
        if 1 - further < level:
            break
        rank, outside = rank + 1, further
    return Interval(ordered[rank - 1], ordered[count - rank], max(0.0, 1 - outside))


@dataclass(frozen=True)
class Ratio:
    """Of pairs measured one right after the other, so that a slow minute of the machine meets both."""

    median: float
    interval: Interval
    pairs: int


def paired_ratio(over: Sequence[float | None], under: Sequence[float | None]) -> Ratio | None:
    """Round by round; a round that lacks one of the two does not count."""
    ratios = [a / b for a, b in zip(over, under, strict=True) if a is not None and b]
    return Ratio(median(ratios), order_interval(ratios), len(ratios)) if ratios else None


def largest_difference(values: Sequence[float], others: Sequence[float]) -> float:
    return max(abs(a - b) for a, b in zip(values, others, strict=True))


def mean_of_last(values: Sequence[float], count: int) -> float:
    return fmean(values[-count:])
