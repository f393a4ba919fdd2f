"""Draws curves of the loss over each other, and below how far they are from one rank's."""
import math

from demo_picture import LogAxis, text

PANEL_WIDTH, LOSS_HEIGHT, DIFFERENCE_HEIGHT = 330, 240, 130
LEFT, TOP, GAP, BETWEEN, BOTTOM = 70, 70, 60, 30, 80
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")
ALONE, ONE_BY_ONE = "#bbbbbb", "#222222"
FLOOR = 1e-8  # a difference of nothing is drawn here
TICKS = 4


def axis(low, high, first, last):
    span = (high - low) or 1
    return lambda value: first + (value - low) / span * (last - first)


def polyline(values, x, y, colour, width, opacity=1.0):
    points = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in enumerate(values, 1))
    return (f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}" '
            f'stroke-opacity="{opacity}"/>')


def frame(left, top, height, ticks, y):
    parts = [f'<rect x="{left}" y="{top}" width="{PANEL_WIDTH}" height="{height}" fill="none" stroke="#444"/>']
    for value, words in ticks:
        parts.append(f'<line x1="{left}" x2="{left + PANEL_WIDTH}" y1="{y(value):.1f}" y2="{y(value):.1f}" '
                     'stroke="#eee"/>')
        parts.append(text(left - 6, y(value) + 4, words, "end", 11))
    return parts


def losses_panel(left, runs, shapes, x):
    alone = runs["one rank"]
    every = [loss for losses in runs.values() for loss in losses]
    low, high = min(every), max(every)
    y = axis(low, high, TOP + LOSS_HEIGHT - 8, TOP + 8)
    values = [low + (high - low) * i / TICKS for i in range(TICKS + 1)]
    parts = frame(left, TOP, LOSS_HEIGHT, [(value, f"{value:.2f}") for value in values], y)
    parts.append(polyline(alone, x, y, ALONE, 6))
    parts += [polyline(losses, x, y, COLOURS[shapes.index(key[1])], 0.7, 0.6)
              for key, losses in runs.items() if isinstance(key, tuple)]
    return parts


def differences_panel(left, runs, shapes, x, powers):
    top = TOP + LOSS_HEIGHT + BETWEEN
    y = LogAxis(10.0**powers[0], 10.0**powers[-1], top + DIFFERENCE_HEIGHT, top)
    parts = frame(left, top, DIFFERENCE_HEIGHT, [(10.0**p, f"1e{p}") for p in powers[::2]], y)
    for key, losses in runs.items():
        gaps = [max(abs(a - b), FLOOR) for a, b in zip(losses, runs["one rank"])]
        if isinstance(key, tuple):
            parts.append(polyline(gaps, x, y, COLOURS[shapes.index(key[1])], 0.7, 0.6))
        elif key != "one rank":
            parts.append(polyline(gaps, x, y, ONE_BY_ONE, 1.5))
    return parts


def legend(width, height, shapes, count):
    entries = [("one rank", ALONE, 6), ("one rank, one by one", ONE_BY_ONE, 2)] + [(f"{count} strategies on {shape}", colour, 2)
                                          for shape, colour in zip(shapes, COLOURS)]
    parts = []
    for number, (words, colour, thick) in enumerate(entries):
        x = width / 2 + (number - len(entries) / 2) * 200
        parts.append(f'<line x1="{x}" x2="{x + 30}" y1="{height - 18}" y2="{height - 18}" stroke="{colour}" '
                     f'stroke-width="{thick}"/>')
        parts.append(text(x + 38, height - 14, words, "start", 13))
    return parts


def draw(results, shapes):
    """results: {kind: {"one rank": losses, "one by one": losses, (strategy, shape): losses, ..}}; the text of the SVG."""
    steps = len(next(iter(results.values()))["one rank"])
    count = len({key[0] for runs in results.values() for key in runs if isinstance(key, tuple)})
    most = max(abs(a - b) for runs in results.values() for losses in runs.values()
               for a, b in zip(losses, runs["one rank"]))
    powers = range(round(math.log10(FLOOR)), max(math.ceil(math.log10(max(most, FLOOR))), -7) + 1)
    width = LEFT + len(results) * (PANEL_WIDTH + GAP)
    bottom = TOP + LOSS_HEIGHT + BETWEEN + DIFFERENCE_HEIGHT
    height = bottom + BOTTOM
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
             f'height="{height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="white"/>',
             text(width / 2, 26, "Loss per byte by step: one rank and sharded, on the same global batches", size=16),
             text(16, TOP + LOSS_HEIGHT / 2, "loss", extra=f'transform="rotate(-90 16 {TOP + LOSS_HEIGHT / 2})"'),
             text(16, bottom - DIFFERENCE_HEIGHT / 2, "difference",
                  extra=f'transform="rotate(-90 16 {bottom - DIFFERENCE_HEIGHT / 2})"')]
    for number, (kind, runs) in enumerate(results.items()):
        left = LEFT + number * (PANEL_WIDTH + GAP)
        x = axis(1, steps, left, left + PANEL_WIDTH)
        parts.append(text(left + PANEL_WIDTH / 2, TOP - 12, kind, size=14))
        parts += losses_panel(left, runs, shapes, x)
        parts += differences_panel(left, runs, shapes, x, powers)
        parts += [text(x(step), bottom + 18, str(step), size=11) for step in (1, steps // 2, steps)]
    parts += legend(width, height, shapes, count)
    # Strategies that add up in the same order have the same curve, to the last bit.
    return "\n".join(dict.fromkeys(parts)) + "\n</svg>\n"
