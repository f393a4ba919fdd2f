"""What a comparison measures, as values: sizes, scenarios, configurations, samples, medians."""

from dataclasses import asdict, dataclass, field
from statistics import median

from measure import report
from measure.report import MIB
from measure.statistics import Spread

OURS = "HO-Ring"
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce")
FEWEST_OPERATIONS = 20


def most_operations(size):
    """How many operations are timed: many where one is short, so that the one burst of a shaper that
    a pause of the machine allows is lost in them; never fewer than twenty."""
    if size <= 65536:
        return 400
    return 80 if size <= MIB else FEWEST_OPERATIONS


@dataclass(frozen=True)
class Scenario:
    """A cluster and what is measured on it."""

    name: str
    shape: str  # "4x4", "8"
    rails: int  # network interfaces per node; 0 on one node
    collectives: tuple
    sizes: tuple
    algorithms: tuple  # ours
    peers: bool
    title: str

    @property
    def groups(self):
        return int(self.shape.split("x")[0]) if "x" in self.shape else 1

    @property
    def ranks_per_group(self):
        return int(self.shape.split("x")[-1])

    @property
    def ranks(self):
        return self.groups * self.ranks_per_group

    def boundary_bytes(self, collective, size):
        """Bytes that must cross a node's boundary in each direction."""
        once = size * (self.groups - 1) / self.groups
        return 2 * once if collective == "all_reduce" else once


@dataclass
class Sample:
    scenario: str
    config: str
    collective: str
    size: int
    round: int
    time_us: float
    wrong: int = 0
    iterations: int = 0
    extra: dict = field(default_factory=dict)  # ours: algorithm, overlap_ratio, percentiles


class Record:
    """All that was measured, in one JSON file that every step adds to."""

    def __init__(self, path):
        self.path = path
        self.samples = []
        self.limits = []  # {scenario, round, bytes_per_second}
        self.facts = {}
        self.failures = []  # {scenario, config, collective, round, text}

    @classmethod
    def load(cls, path):
        record = cls(path)
        content = report.load(path, ("samples", "limits", "facts", "failures"), "tools/bench/compare")
        record.samples = [Sample(**sample) for sample in content["samples"]]
        record.limits = content["limits"]
        record.facts = content["facts"]
        record.failures = content["failures"]
        return record

    def save(self):
        content = {
            "facts": self.facts,
            "limits": self.limits,
            "failures": self.failures,
            "samples": [asdict(sample) for sample in self.samples],
        }
        report.save(self.path, content)

    def cell(self, scenario, config, collective, size):
        """Median and spread of a configuration at a size, or None."""
        return Spread.of([s.time_us for s in self.samples if (s.scenario, s.config, s.collective, s.size)
                          == (scenario, config, collective, size)])

    def configs(self, scenario, collective):
        """In the order in which they were first measured."""
        names = {}
        for s in self.samples:
            if s.scenario == scenario and s.collective == collective:
                names.setdefault(s.config)
        return list(names)

    def ours(self, scenario, collective, size):
        return self.cell(scenario.name, f"{OURS} auto", collective, size)

    def best_peer(self, scenario, collective, size):
        """(name, cell) of the fastest peer at this size, or None."""
        names = [name for name in self.configs(scenario.name, collective) if not name.startswith(OURS)]
        cells = [(name, cell) for name in names if (cell := self.cell(scenario.name, name, collective, size))]
        return min(cells, key=lambda pair: pair[1].median) if cells else None

    def limit(self, scenario):
        """Bytes per second of a node, median over the rounds, or None."""
        rates = [each["bytes_per_second"] for each in self.limits if each["scenario"] == scenario]
        return median(rates) if rates else None

    def limit_us(self, scenario, collective, size):
        """How long the links alone take, or None."""
        limit = self.limit(scenario.name)
        return scenario.boundary_bytes(collective, size) / limit * 1e6 if limit and scenario.groups > 1 else None

    def share(self, scenario, name, collective, size):
        """What a configuration uses of the limit, or None."""
        cell, limit_us = self.cell(scenario.name, name, collective, size), self.limit_us(scenario, collective, size)
        return limit_us / cell.median if cell and limit_us else None
