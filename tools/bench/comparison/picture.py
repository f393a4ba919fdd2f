"""Time against size, both axes logarithmic, the link's limit as a dashed line."""

import math
from typing import Any

from comparison.configs import OURS
from measure import picture
from measure.report import KIB, axis_time_text, bytes_text

OWN_COLOURS = {"auto": "#c0162c", "ring": "#e08a8f", "multi_ring": "#e2703a"}
PEER_COLOURS = ("#1f4e9c", "#3f8fd0", "#17806d", "#6aa84f", "#7a4fa3", "#b08bd0", "#555555", "#8d6e3a", "#3aa6a6",
                "#999999")


def curves(record, scenario, collective) -> list[tuple[str, str, list]]:
    """[(label, colour, points)], ours first."""
    found, peers = [], 0
    for name in record.configs(scenario.name, collective):
        cells = [(size, record.cell(scenario.name, name, collective, size)) for size in scenario.sizes]
        points = [(size, cell.median) for size, cell in cells if cell is not None]
        if not points:
            continue
        if name.startswith(OURS):
            colour = OWN_COLOURS.get(name.split()[-1], "#d05a5a")
        else:
            colour = PEER_COLOURS[peers % len(PEER_COLOURS)]
            peers += 1
        found.append((name, colour, points))
    return found


def draw(record, scenario, collective) -> Any:
    """The figure, or None where nothing was measured."""
    found = curves(record, scenario, collective)
    if not found:
        return None
    drawn, axes = picture.figure(
        900, 560, f"{collective}, {scenario.title}: time of one operation against its size")
    sizes = sorted({size for _, _, points in found for size, _ in points})
    limit = record.limit(scenario.name)
    crossing = [size for size in sizes if size >= 16 * KIB]
    if limit and scenario.groups > 1 and crossing:
        axes.plot(crossing, [scenario.boundary_bytes(collective, size) / limit * 1e6 for size in crossing],
                  "--", color="#222222", label="limit of the links")
    for place, (name, colour, points) in enumerate(found):
        # Ours above the peers', the first of them thickest.
        axes.plot(*zip(*points), marker="o", markersize=4, color=colour, label=name, zorder=100 - place,
                  linewidth=3 if name == f"{OURS} auto" else 1.5)
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)))  # so that ticks are there
    axes.yaxis.set_major_formatter(lambda time, _: axis_time_text(time))
    picture.logarithmic_sizes(axes, sizes, [bytes_text(size) for size in sizes])
    axes.set_xlabel("bytes (total of the operation); less is better")
    picture.legend_beside(axes)
    return drawn
