"""Draws curves of the loss over each other, and below how far they are from one rank's."""

from typing import Any

from measure import picture

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")
ALONE, ONE_BY_ONE = "#bbbbbb", "#222222"
FLOOR = 1e-8  # a difference of nothing is drawn here


def draw(results: dict, shapes: tuple[str, ...]) -> Any:
    """results: {kind: {"one rank": losses, "one by one": losses, (strategy, shape): losses, ..}}; the figure."""
    count = len({key[0] for runs in results.values() for key in runs if isinstance(key, tuple)})
    drawn, axes = picture.figure(
        70 + 370 * len(results), 540, "Loss per byte by step: one rank and sharded, on the same global batches", 2,
        len(results), squeeze=False, sharex=True, gridspec_kw={"height_ratios": (2, 1)})
    for column, (kind, runs) in enumerate(results.items()):
        losses, differences = axes[:, column]
        losses.set_title(kind)
        alone = runs["one rank"]
        steps = range(1, len(alone) + 1)
        seen = set()  # strategies that add up in the same order have the same curve, to the last bit
        losses.plot(steps, alone, color=ALONE, linewidth=6, label="one rank")
        for key, curve in runs.items():
            gaps = [max(abs(a - b), FLOOR) for a, b in zip(curve, alone, strict=True)]
            if key == "one by one":
                differences.plot(steps, gaps, color=ONE_BY_ONE, linewidth=1.5, label="one rank, one by one", zorder=3)
            elif key != "one rank" and (key[1], tuple(curve)) not in seen:
                colour = COLOURS[shapes.index(key[1]) % len(COLOURS)]
                label = f"{count} strategies on {key[1]}" if key[1] not in {shape for shape, _ in seen} else None
                seen.add((key[1], tuple(curve)))
                losses.plot(steps, curve, color=colour, linewidth=0.7, alpha=0.6)
                differences.plot(steps, gaps, color=colour, linewidth=0.7, alpha=0.6, label=label)
        differences.set_yscale("log")
        differences.set_xlabel("step")
    most = max(panel.get_ylim()[1] for panel in axes[1])
    for panel in axes[1]:
        panel.set_ylim(FLOOR / 2, most)  # the same for all kinds, so that they compare
    axes[0, 0].set_ylabel("loss")
    axes[1, 0].set_ylabel("difference")
    entries = [entry for panel in axes[:, 0] for entry in zip(*panel.get_legend_handles_labels())]
    picture.legend_below(drawn, entries)
    return drawn
