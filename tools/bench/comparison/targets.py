"""The targets this project set itself, each with its figure and whether it is met."""

from dataclasses import dataclass

from comparison.configs import OURS
from measure.report import MIB, bytes_text

SHARE_TARGETS = {  # collective -> [(from size, up to size, least share of the limit)]
    "all_gather": [(65536, 65536, 0.85), (MIB, MIB, 0.95), (4 * MIB, 1 << 60, 0.97)],
    "reduce_scatter": [(65536, 65536, 0.85), (MIB, MIB, 0.95), (4 * MIB, 1 << 60, 0.97)],
    "all_reduce": [(MIB, MIB, 0.90), (4 * MIB, 1 << 60, 0.95)],
}
BEST_PEER_TARGETS = {"all_gather": 1.2, "reduce_scatter": 1.8, "all_reduce": 1.2}
RING_TARGETS = [  # scenario, ours, the other, least ratio
    ("main", "multi_ring", 1.2),
    ("main", "ring", 3.5),
    ("two_nodes", "multi_ring", 1.65),
    ("one_rail", "ring", 1.2),
    ("two_rails", "multi_ring", 1.2),
]


@dataclass
class Target:
    what: str
    figure: str
    passed: bool

    def text(self):
        return f"{'passed' if self.passed else 'MISSED'}: {self.what}: {self.figure}"


def share(record, scenario, cell, collective, size):
    limit = record.limit(scenario.name)
    if cell is None or not limit or scenario.groups < 2:
        return None
    return scenario.boundary_bytes(collective, size) / limit / (cell.median / 1e6)


def ours(record, scenario, collective, size, algorithm="auto"):
    return record.cell(scenario.name, f"{OURS} {algorithm}", collective, size)


def peers(record, scenario, collective):
    names = record.configs(scenario.name, collective)
    return [name for name in names if not name.startswith(OURS)]


def best_peer(record, scenario, collective, size):
    """(name, cell) of the fastest peer at this size, or None."""
    cells = [
        (name, record.cell(scenario.name, name, collective, size))
        for name in peers(record, scenario, collective)
    ]
    cells = [(name, cell) for name, cell in cells if cell is not None]
    return min(cells, key=lambda pair: pair[1].median) if cells else None


def share_targets(record, scenario):
    for collective, bands in SHARE_TARGETS.items():
        for first, last, least in bands:
            for size in scenario.sizes:
                cell = ours(record, scenario, collective, size)
                value = share(record, scenario, cell, collective, size)
                if value is None or not first <= size <= last:
                    continue
                broken = " (above 1: the measurement is broken)" if value > 1.0 else ""
                yield Target(f"{collective} {bytes_text(size)} at {least} of the limit",
                             f"{value:.3f}{broken}", least <= value <= 1.0)


def ring_targets(record, scenarios):
    for name, other, least in RING_TARGETS:
        scenario = scenarios[name]
        for collective in ("all_gather", "reduce_scatter"):
            size = 64 * MIB
            mine = ours(record, scenario, collective, size)
            theirs = ours(record, scenario, collective, size, other)
            if mine and theirs:
                ratio = theirs.median / mine.median
                yield Target(f"{collective} 64 MiB, {scenario.title}: {least}x {other}",
                             f"{ratio:.2f}x", ratio >= least)


def peer_targets(record, scenario):
    for collective in scenario.collectives:
        for size in scenario.sizes:
            mine = ours(record, scenario, collective, size)
            best = best_peer(record, scenario, collective, size)
            if mine is None or best is None:
                continue
            name, cell = best
            yield Target(
                f"{collective} {bytes_text(size)} faster than every peer beyond the spread",
                f"{mine.median:.1f} us ({mine.least:.1f} to {mine.most:.1f}), {name} "
                f"{cell.median:.1f} us ({cell.least:.1f} to {cell.most:.1f})",
                mine.most < cell.least)
            least = BEST_PEER_TARGETS[collective]
            if size == 64 * MIB:
                ratio = cell.median / mine.median
                yield Target(f"{collective} 64 MiB {least}x the best peer",
                             f"{ratio:.2f}x {name}", ratio >= least)


def one_node_targets(record, scenario):
    for collective in scenario.collectives:
        mine = ours(record, scenario, collective, 64 * MIB)
        best = best_peer(record, scenario, collective, 64 * MIB)
        if mine and best:
            ratio = best[1].median / mine.median
            yield Target(f"{collective} 64 MiB on one node at least as fast as any peer",
                         f"{ratio:.2f}x {best[0]}", ratio >= 1.0)


def cost_targets(record, scenario):
    cores = record.facts.get("cores")
    for collective, busy in record.facts.get("cores_busy_16MiB", {}).items():
        yield Target(f"{collective} 16 MiB keeps less than half of {cores} cores busy",
                     f"{busy:.2f} cores", busy < cores / 2)
    startups = record.facts.get(f"startup_ms {scenario.shape}")
    if startups:
        yield Target(f"a communicator of {scenario.ranks} ranks starts within 1 s",
                     f"slowest of {len(startups)}: {max(startups):.0f} ms", max(startups) < 1000)


def correctness_target(record):
    wrong = [s for s in record.samples if s.wrong]
    mine = [s for s in wrong if s.config.startswith(OURS)]
    figure = f"{len(record.samples)} measurements, {len(mine)} of ours wrong"
    others = sorted({s.config for s in wrong if s not in mine})
    return Target("every byte of every result is right",
                  figure + (f"; also wrong: {', '.join(others)}" if others else ""), not mine)


def all_targets(record, scenarios):
    main = scenarios["main"]
    results = [correctness_target(record)]
    results += share_targets(record, main)
    results += ring_targets(record, scenarios)
    if main.groups > 1:
        results += peer_targets(record, main)
    results += one_node_targets(record, scenarios["one_node"])
    results += cost_targets(record, main)
    return results


def broken_shares(record, scenarios):
    """Cells that beat the limit, of any library: the measurement is broken there."""
    found = []
    for scenario in scenarios.values():
        for collective in scenario.collectives:
            for name in record.configs(scenario.name, collective):
                for size in scenario.sizes:
                    cell = record.cell(scenario.name, name, collective, size)
                    value = share(record, scenario, cell, collective, size)
                    if value is not None and value > 1.0:
                        found.append(f"{scenario.title}, {collective}, {bytes_text(size)}, {name}: "
                                     f"share {value:.3f}")
    return found
