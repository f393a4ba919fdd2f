"""What was measured as SVG: throughput against memory, where a step's time went, gains."""
import math
from html import escape

from paro_gains.cases import published_regime

WIDTH, HEIGHT = 860, 460
LEFT, RIGHT, TOP, BOTTOM = 80, 190, 56, 60
OWN, RING, BASELINE = "#d62728", "#ff9896", "#1f77b4"
COLOURS = ("#d62728", "#1f77b4", "#2ca02c", "#9467bd")
IDLE = "idle: others late"
PARTS = (("computation", "compute_s", "#888888"), ("exposed", "exposed_s", "#d62728"),
         (IDLE, "idle_s", "#ffbb78"), ("update", "update_s", "#17806d"),
         ("hooks", "hooks_s", "#1f77b4"))


def text(x, y, words, anchor="start", size=12, extra=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" {extra}>'
            f"{escape(words)}</text>")


def document(width, height, parts):
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" font-family="sans-serif" font-size="12">')
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]) + "\n"


def title_of(result):
    config = result["config"]
    return (f'{config["model"]}, {result["groups"]} ranks, {result["rails"]} NICs a node of '
            f'{result["rate"]} Mbit/s')


def samples_per_second(config, row):
    return config["ranks"] * config["micro_batch"] * config["accumulation"] / row["step_s"]


class Axis:
    """low..high to first..last, linear or by logarithm."""

    def __init__(self, low, high, first, last, log=False):
        self.of = math.log if log else float
        self.low, self.high = self.of(low), self.of(high)
        self.first, self.last = first, last

    def __call__(self, value):
        part = (self.of(value) - self.low) / ((self.high - self.low) or 1)
        return self.first + part * (self.last - self.first)


def ticks(high, count=5):
    step = 10 ** math.floor(math.log10(high / count))
    step *= next(m for m in (1, 2, 5, 10) if high / (step * m) <= count)
    return [step * i for i in range(int(high / step) + 1)]


def frame(x, y, x_ticks, y_ticks, x_name, y_name):
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = [f'<rect x="{LEFT}" y="{TOP}" width="{right - LEFT}" height="{bottom - TOP}" fill="none" '
             'stroke="#444"/>']
    for value in y_ticks:
        parts.append(f'<line x1="{LEFT}" x2="{right}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>')
        parts.append(text(LEFT - 6, y(value) + 4, f"{value:g}", "end"))
    for value in x_ticks:
        parts.append(text(x(value), bottom + 18, f"{value:.3g}", "middle"))
    parts.append(text((LEFT + right) / 2, bottom + 42, x_name, "middle"))
    middle = (TOP + bottom) / 2
    parts.append(text(20, middle, y_name, "middle", extra=f'transform="rotate(-90 20 {middle})"'))
    return parts


def colour_of(row):
    if row["baseline"]:
        return BASELINE
    return OWN if row["world_algorithm"] == "ho_ring" else RING


def at_factor(result, factor=1):
    return [row for row in result["results"] if row["compute_factor"] == factor]


def free_place(labels, x, y, width=56, height=11):
    """The first place from (x, y) downwards where no label is."""
    while any(abs(x - other_x) < width and abs(y - other_y) < height for other_x, other_y in labels):
        y += 1
    return x, y


def throughput(result):
    """Samples per second against memory, a point per system."""
    rows = at_factor(result)
    points = [(row["memory_bytes"] / 1e6, samples_per_second(result["config"], row), row) for row in rows]
    most_memory, most = max(p[0] for p in points), max(p[1] for p in points)
    x = Axis(0, most_memory * 1.08, LEFT, WIDTH - RIGHT)
    y = Axis(0, most * 1.1, HEIGHT - BOTTOM, TOP)
    parts = [text(LEFT, 28, title_of(result), size=15)]
    parts += frame(x, y, ticks(most_memory), ticks(most), "memory of the fullest rank, MB",
                   "samples per second")
    labels = []
    for memory, speed, row in sorted(points, key=lambda point: -point[1]):
        parts.append(f'<circle cx="{x(memory):.1f}" cy="{y(speed):.1f}" r="4.5" fill="{colour_of(row)}">'
                     f'<title>{row["system"]}: {row["step_s"] * 1e3:.0f} ms, {memory:.1f} MB</title></circle>')
        labels.append(free_place(labels, x(memory) + 8, y(speed) + 4))
        parts.append(text(*labels[-1], row["system"], size=10))
    for place, (name, colour) in enumerate((("libparo", OWN), ("libparo, flat rings", RING),
                                            ("baselines", BASELINE))):
        row_y = TOP + 14 + 20 * place
        parts.append(f'<circle cx="{WIDTH - RIGHT + 24}" cy="{row_y - 4}" r="4.5" fill="{colour}"/>')
        parts.append(text(WIDTH - RIGHT + 36, row_y, name))
    return document(WIDTH, HEIGHT, parts)


def bars(result, idle=IDLE):
    """A bar per system, a step's time by what it went into. `idle`: what the time of that name is."""
    rows = at_factor(result)
    row_height, top = 24, 50
    height = top + row_height * len(rows) + 60
    longest = max(sum(row[key] for _, key, _ in PARTS) for row in rows)
    parts = [text(LEFT, 28, "a step of " + title_of(result), size=15)]
    for place, row in enumerate(rows):
        y, x = top + place * row_height, float(LEFT)
        parts.append(text(LEFT - 8, y + 14, row["system"], "end"))
        for _, key, colour in PARTS:
            length = max(row[key], 0) / longest * (WIDTH - LEFT - 80)
            parts.append(f'<rect x="{x:.1f}" y="{y}" width="{length:.1f}" height="{row_height - 6}" '
                         f'fill="{colour}"/>')
            x += length
        parts.append(text(x + 6, y + 14, f'{row["step_s"] * 1e3:.0f} ms'))
    for place, (name, _, colour) in enumerate(PARTS):
        x = LEFT + place * 165
        parts.append(f'<rect x="{x}" y="{height - 36}" width="14" height="14" fill="{colour}"/>')
        parts.append(text(x + 20, height - 24, idle if name == IDLE else name))
    return document(WIDTH, height, parts)


def step_of(rows, system):
    return next((row["step_s"] for row in rows if row["system"] == system), None)


def gain_lines(result, ratios):
    """By ratio: [(computation over ZeRO-3's communication, times as fast), ..]."""
    lines = {}
    for factor in sorted({row["compute_factor"] for row in result["results"]}):
        rows = at_factor(result, factor)
        zero3 = next((row for row in rows if row["system"] == "zero3"), None)
        if zero3 is None or zero3["predicted_communication_s"] <= 0:
            continue
        where = result["config"]["compute_s"] * factor / zero3["predicted_communication_s"]
        for ours, baseline in ratios:
            fast, slow = step_of(rows, ours), step_of(rows, baseline)
            if fast and slow:
                lines.setdefault((ours, baseline), []).append((where, slow / fast))
    return lines


def gains(case, result, ratios):
    """Ratios of steps against the ratio of computation to communication; '' for a single point."""
    lines = gain_lines(result, ratios)
    points = [point for line in lines.values() for point in line]
    if len({where for where, _ in points}) < 2:
        return ""
    config = result["config"]
    regime = published_regime(config["trained"] / config["parameters"])
    wheres = [where for where, _ in points] + [regime]
    most = max([gain for _, gain in points] + [theirs for _, theirs in case.theirs])
    x = Axis(min(wheres) / 1.3, max(wheres) * 1.3, LEFT, WIDTH - RIGHT, log=True)
    y = Axis(0, most * 1.1, HEIGHT - BOTTOM, TOP)
    parts = [text(LEFT, 28, "times as fast: " + title_of(result), size=15)]
    parts += frame(x, y, sorted({where for where, _ in points}), ticks(most),
                   "computation over ZeRO-3's communication (flat rings), seconds of a step", "times as fast")
    parts.append(f'<line x1="{x(regime):.1f}" x2="{x(regime):.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" '
                 'stroke="#444" stroke-dasharray="5 4"/>')
    parts.append(text(x(regime) + 4, TOP + 14, "published regime", size=10))
    theirs = dict(case.theirs)
    for place, (ratio, line) in enumerate(lines.items()):
        colour = COLOURS[place % len(COLOURS)]
        where = " ".join(f"{x(at):.1f},{y(gain):.1f}" for at, gain in line)
        parts.append(f'<polyline points="{where}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x(at):.1f}" cy="{y(gain):.1f}" r="3.5" fill="{colour}"><title>{gain:.2f}'
                  "</title></circle>" for at, gain in line]
        parts.append(text(WIDTH - RIGHT + 12, TOP + 14 + 34 * place, f"{ratio[0]} / {ratio[1]}",
                          extra=f'fill="{colour}"'))
        if ratio in theirs:
            parts.append(f'<circle cx="{x(regime):.1f}" cy="{y(theirs[ratio]):.1f}" r="6" fill="none" '
                         f'stroke="{colour}" stroke-width="2"/>')
            parts.append(text(WIDTH - RIGHT + 12, TOP + 29 + 34 * place,
                              f"published: {theirs[ratio]} (circle)", size=10))
    return document(WIDTH, HEIGHT, parts)
