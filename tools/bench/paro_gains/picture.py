"""What was measured as pictures: throughput against memory, where a step's time went, gains."""

from typing import Any

from measure import picture
from paro_gains.cases import published_regime

OWN, RING, BASELINE = "#d62728", "#ff9896", "#1f77b4"
KINDS = (("libparo", OWN), ("libparo, flat rings", RING), ("baselines", BASELINE))
IDLE = "idle: others late"
PARTS = (("computation", "compute_s", "#888888"), ("exposed", "exposed_s", "#d62728"), (IDLE, "idle_s", "#ffbb78"),
         ("update", "update_s", "#17806d"), ("hooks", "hooks_s", "#1f77b4"))


def title_of(result) -> str:
    return (f'{result["config"]["model"]}, {result["groups"]} ranks, {result["rails"]} NICs a node of '
            f'{result["rate"]} Mbit/s')


def samples_per_second(config, row) -> float:
    return config["ranks"] * config["micro_batch"] * config["accumulation"] / row["step_s"]


def colour_of(row) -> str:
    if row["baseline"]:
        return BASELINE
    return OWN if row["world_algorithm"] == "ho_ring" else RING


def at_factor(result, factor=1) -> list[dict]:
    return [row for row in result["results"] if row["compute_factor"] == factor]


def throughput(result) -> Any:
    """Samples per second against memory, a point per system."""
    rows = sorted(at_factor(result), key=lambda row: row["step_s"])
    points = [(row["memory_bytes"] / 1e6, samples_per_second(result["config"], row)) for row in rows]
    drawn, axes = picture.figure(860, 460, title_of(result))
    for name, colour in KINDS:
        axes.plot([], [], "o", color=colour, label=name)
    for (memory, speed), row in zip(points, rows):
        axes.plot([memory], [speed], "o", markersize=5.5, color=colour_of(row),
                  gid=picture.tip(f'{row["system"]}: {row["step_s"] * 1e3:.0f} ms, {memory:.1f} MB'))
    axes.set_xlim(0, max(x for x, _ in points) * 1.08)
    axes.set_ylim(0, max(y for _, y in points) * 1.1)
    axes.set_xlabel("memory of the fullest rank, MB")
    axes.set_ylabel("samples per second")
    picture.legend_beside(axes)
    picture.label_points(drawn, axes, points, [row["system"] for row in rows])
    return drawn


def bars(result, idle=IDLE) -> Any:
    """A bar per system, a step's time by what it went into. `idle`: what the time of that name is."""
    rows = at_factor(result)
    names = [row["system"] for row in rows]
    drawn, axes = picture.figure(860, 110 + 24 * len(rows), "a step of " + title_of(result))
    ends = [0.0] * len(rows)
    for name, key, colour in PARTS:
        lengths = [max(row[key], 0) * 1e3 for row in rows]
        axes.barh(names, lengths, left=ends, color=colour, height=0.75, label=idle if name == IDLE else name)
        ends = [end + length for end, length in zip(ends, lengths)]
    for index, (row, end) in enumerate(zip(rows, ends)):
        axes.annotate(f'{row["step_s"] * 1e3:.0f} ms', (end, index), xytext=(5, 0), textcoords="offset points",
                      va="center")
    axes.set_xlim(0, max(ends) * 1.12)
    axes.invert_yaxis()  # the first row on top
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("ms")
    picture.legend_below(drawn, list(zip(*axes.get_legend_handles_labels())))
    return drawn


def step_of(rows, system) -> float | None:
    return next((row["step_s"] for row in rows if row["system"] == system), None)


def gain_lines(result, ratios) -> dict[tuple[str, str], list[tuple[float, float]]]:
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


def gains(case, result, ratios) -> Any:
    """Ratios of steps against the ratio of computation to communication; None for a single point."""
    lines = gain_lines(result, ratios)
    wheres = sorted({where for line in lines.values() for where, _ in line})
    if len(wheres) < 2:
        return None
    config, theirs = result["config"], dict(case.theirs)
    regime = published_regime(config["trained"] / config["parameters"])
    drawn, axes = picture.figure(860, 460, "times as fast: " + title_of(result))
    axes.axvline(regime, color="#444444", linestyle="--", linewidth=1, label="published regime")
    for (ratio, line), colour in zip(lines.items(), picture.COLOURS):
        axes.plot(*zip(*line), marker="o", markersize=5, color=colour, label=f"{ratio[0]} / {ratio[1]}")
        for where, gain in line:
            axes.plot([where], [gain], "o", markersize=5, color=colour, gid=picture.tip(f"{gain:.2f}"))
        if ratio in theirs:
            axes.plot([regime], [theirs[ratio]], "o", markersize=9, fillstyle="none", markeredgewidth=2,
                      color=colour, label=f"published: {theirs[ratio]}")
    axes.set_xscale("log")
    axes.set_xticks(wheres, [f"{where:.3g}" for where in wheres])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel("computation over ZeRO-3's communication (flat rings), seconds of a step")
    axes.set_ylabel("times as fast")
    picture.legend_beside(axes)
    return drawn
