"""Draws time against size as an SVG: a panel per collective, a line per algorithm, both axes log."""
import math
from html import escape

from measure.report import axis_time_text

COLOURS = ("#888888", "#1f77b4", "#d62728", "#2ca02c", "#9467bd")
PANEL_WIDTH, PANEL_HEIGHT = 320, 260
LEFT, TOP, GAP, BOTTOM = 80, 70, 70, 80


def text(x, y, words, anchor="middle", size=12, extra=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" {extra}>'
            f"{escape(words)}</text>")


def svg(width, height, parts):
    """The text of a picture of these elements."""
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="sans-serif" font-size="12">')
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]) + "\n"


class LogAxis:
    """Maps low..high to first..last, by logarithm."""

    def __init__(self, low, high, first, last):
        self.low, self.high = math.log(low), math.log(high)
        self.first, self.last = first, last

    def __call__(self, value):
        part = (math.log(value) - self.low) / ((self.high - self.low) or 1)
        return self.first + part * (self.last - self.first)


def draw_line(points, x, y, colour):
    where = " ".join(f"{x(size):.1f},{y(time):.1f}" for size, time in points)
    parts = [f'<polyline points="{where}" fill="none" stroke="{colour}" stroke-width="2"/>']
    parts += [f'<circle cx="{x(size):.1f}" cy="{y(time):.1f}" r="3.5" fill="{colour}">'
              f"<title>{escape(axis_time_text(round(time, 1)))}</title></circle>" for size, time in points]
    return parts


def draw_panel(left, name, lines, decades, size_text):
    bottom = TOP + PANEL_HEIGHT
    sizes = sorted({size for points in lines.values() for size, _ in points})
    x = LogAxis(sizes[0] / 1.5, sizes[-1] * 1.5, left, left + PANEL_WIDTH)
    y = LogAxis(decades[0], decades[-1], bottom, TOP)
    parts = [f'<rect x="{left}" y="{TOP}" width="{PANEL_WIDTH}" height="{PANEL_HEIGHT}" '
             'fill="none" stroke="#444"/>',
             text(left + PANEL_WIDTH / 2, TOP - 10, name.replace("_", "-"), size=15)]
    for decade in decades:
        parts.append(f'<line x1="{left}" x2="{left + PANEL_WIDTH}" y1="{y(decade):.1f}" '
                     f'y2="{y(decade):.1f}" stroke="#ddd"/>')
        parts.append(text(left - 6, y(decade) + 4, axis_time_text(decade), "end"))
    for size in sizes:
        parts.append(f'<line x1="{x(size):.1f}" x2="{x(size):.1f}" y1="{bottom}" '
                     f'y2="{bottom + 5}" stroke="#444"/>')
        parts.append(text(x(size), bottom + 19, size_text(size), size=11))
    parts.append(text(left + PANEL_WIDTH / 2, bottom + 38, "size of the operation, in all"))
    for colour, points in zip(COLOURS, lines.values()):
        parts += draw_line(points, x, y, colour)
    return parts


def draw(title, panels, size_text):
    """panels: [(collective, {algorithm: [(bytes, microseconds), ..]}), ..]; the text of the SVG."""
    times = [time for _, lines in panels for points in lines.values() for _, time in points]
    first, last = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    decades = [10.0**power for power in range(first, max(last, first + 1) + 1)]
    width = LEFT + len(panels) * (PANEL_WIDTH + GAP)
    height = TOP + PANEL_HEIGHT + BOTTOM
    middle = TOP + PANEL_HEIGHT / 2
    parts = [text(width / 2, 26, title, size=16),
             text(18, middle, "time of one operation", extra=f'transform="rotate(-90 18 {middle})"')]
    for number, (name, lines) in enumerate(panels):
        parts += draw_panel(LEFT + number * (PANEL_WIDTH + GAP), name, lines, decades, size_text)
    names = list(panels[0][1])
    for number, (name, colour) in enumerate(zip(names, COLOURS)):
        x = width / 2 + (number - (len(names) - 1) / 2) * 170
        parts.append(f'<line x1="{x - 70:.1f}" x2="{x - 40:.1f}" y1="{height - 18}" '
                     f'y2="{height - 18}" stroke="{colour}" stroke-width="3"/>')
        parts.append(text(x - 32, height - 14, name, "start", 13))
    return svg(width, height, parts)
