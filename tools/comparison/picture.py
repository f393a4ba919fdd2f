"""Time against size as an SVG, both axes logarithmic, the link's limit as a dashed line."""

import math
from xml.sax.saxutils import escape

from comparison.configs import OURS
from comparison.model import bytes_text

WIDTH, HEIGHT = 900, 560
LEFT, RIGHT, TOP, BOTTOM = 80, 250, 50, 60
OWN_COLORS = {"auto": "#c0162c", "ring": "#e08a8f", "multi_ring": "#e2703a"}
PEER_COLORS = ("#1f4e9c", "#3f8fd0", "#17806d", "#6aa84f", "#7a4fa3", "#b08bd0", "#555555",
               "#8d6e3a", "#3aa6a6", "#999999")


class Axes:
    def __init__(self, sizes, times):
        self.x_low, self.x_high = math.log2(min(sizes)), math.log2(max(sizes))
        self.y_low = math.floor(math.log10(min(times)))
        self.y_high = math.ceil(math.log10(max(times)))
        self.x_high = max(self.x_high, self.x_low + 1)
        self.y_high = max(self.y_high, self.y_low + 1)

    def x(self, size):
        part = (math.log2(size) - self.x_low) / (self.x_high - self.x_low)
        return LEFT + part * (WIDTH - LEFT - RIGHT)

    def y(self, time_us):
        part = (math.log10(time_us) - self.y_low) / (self.y_high - self.y_low)
        return HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)


def power_text(exponent):
    units = {0: "1 us", 1: "10 us", 2: "100 us", 3: "1 ms", 4: "10 ms", 5: "100 ms", 6: "1 s",
             7: "10 s"}
    return units.get(exponent, f"1e{exponent} us")


def grid(axes, sizes):
    parts = []
    for exponent in range(axes.y_low, axes.y_high + 1):
        y = axes.y(10**exponent)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" '
                     'stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">'
                     f"{power_text(exponent)}</text>")
    for size in sizes:
        x = axes.x(size)
        parts.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" '
                     'stroke="#eeeeee"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">'
                     f"{bytes_text(size)}</text>")
    return parts


def line(axes, points, color, dashed=False, width=2):
    coordinates = " ".join(f"{axes.x(size):.1f},{axes.y(time):.1f}" for size, time in points)
    dash = ' stroke-dasharray="6 4"' if dashed else ""
    parts = [f'<polyline points="{coordinates}" fill="none" stroke="{color}" '
             f'stroke-width="{width}"{dash}/>']
    if not dashed:
        parts += [f'<circle cx="{axes.x(size):.1f}" cy="{axes.y(time):.1f}" r="3" fill="{color}"/>'
                  for size, time in points]
    return parts


def curves(record, scenario, collective):
    """[(label, color, points)], ours first."""
    found, peers = [], 0
    for name in record.configs(scenario.name, collective):
        cells = [(size, record.cell(scenario.name, name, collective, size))
                 for size in scenario.sizes]
        points = [(size, cell.median) for size, cell in cells if cell is not None]
        if not points:
            continue
        if name.startswith(OURS):
            color = OWN_COLORS.get(name.split()[-1], "#d05a5a")
        else:
            color = PEER_COLORS[peers % len(PEER_COLORS)]
            peers += 1
        found.append((name, color, points))
    return found


def limit_points(record, scenario, collective, sizes):
    limit = record.limit(scenario.name)
    if not limit or scenario.groups < 2:
        return []
    return [(s, scenario.boundary_bytes(collective, s) / limit * 1e6) for s in sizes if s >= 16384]


def legend(entries):
    parts = []
    for index, (label, color, dashed) in enumerate(entries):
        y = TOP + 10 + index * 20
        dash = ' stroke-dasharray="6 4"' if dashed else ""
        x = WIDTH - RIGHT + 15
        parts.append(f'<line x1="{x}" y1="{y}" x2="{x + 24}" y2="{y}" stroke="{color}" '
                     f'stroke-width="2"{dash}/>')
        parts.append(f'<text x="{x + 30}" y="{y + 4}">{escape(label)}</text>')
    return parts


def draw(record, scenario, collective):
    """The picture as text, or None where nothing was measured."""
    found = curves(record, scenario, collective)
    if not found:
        return None
    sizes = sorted({size for _, _, points in found for size, _ in points})
    limit = limit_points(record, scenario, collective, sizes)
    times = [time for _, _, points in found for _, time in points] + [t for _, t in limit]
    axes = Axes(sizes, times)
    title = f"{collective}, {scenario.title}: time of one operation against its size"
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
             f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             f'<text x="{LEFT}" y="28" font-size="15">{escape(title)}</text>']
    parts += grid(axes, sizes)
    entries = []
    for name, color, points in reversed(found):
        parts += line(axes, points, color, width=3 if name == f"{OURS} auto" else 1.5)
    for name, color, _ in found:
        entries.append((name, color, False))
    if limit:
        parts += line(axes, limit, "#222222", dashed=True)
        entries.insert(0, ("limit of the links", "#222222", True))
    parts += legend(entries)
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 14}">bytes (total of the operation); less is '
                 "better</text></svg>")
    return "\n".join(parts) + "\n"
