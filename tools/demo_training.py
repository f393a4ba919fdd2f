"""The second half of the demo: which strategy a small model should take on this cluster, and training
with it; or all 14 in turn. Called inside `horing cluster`."""
import json
import pathlib

import demo_picture
from measure.runner import must_run

# fp32 parameters of a unit, and ms of its forward pass (backward: twice that), as if a device did it.
UNITS = 5
SMALL = (2**18, 10)
LARGE = (2**20, 40)
# So little that whole states on every rank do not fit, as with large models.
RANK_MEMORY = "20MB"
PARTS = (("computation", ("compute_s",), "#888888"),
         ("exposed communication", ("exposed_s",), "#d62728"),
         ("idle: others are late", ("idle_s",), "#ffbb78"),
         ("update and hooks", ("update_s", "hooks_s"), "#1f77b4"))


def run_paro(options, arguments, timeout):
    """`paro` on every rank of the cluster; what rank 0 printed."""
    tools = pathlib.Path(options.build) / "tools"
    command = [str(tools / "horing"), "run", "--quiet", "--rank0-raw", "-n", options.groups,
               "--timeout", str(timeout), "--", str(tools / "paro"), *arguments]
    return must_run(command, printed="errors")


def plan(options):
    """Prints the planner's table from links measured here; the strategy that it recommends."""
    elements, forward_ms = SMALL
    compute_ms = 3 * forward_ms * UNITS
    arguments = ["plan", "--measure", "--model", f"params={UNITS * elements},layers={UNITS}",
                 "--bytes", "4,4,12", "--memory", RANK_MEMORY, "--compute-time", f"{compute_ms}ms"]
    print(f"\n$ paro {' '.join(arguments)}\n{run_paro(options, arguments, 60)}")
    return json.loads(run_paro(options, [*arguments, "--json"], 60))["recommended"]


def train(options, strategy, size, steps):
    """Prints `paro train`'s table; its JSON."""
    result = pathlib.Path(options.scratch) / "train.json"
    arguments = ["train", "--strategy", strategy, "--steps", str(steps), "--unit-elements",
                 str(size[0]), "--forward-ms", str(size[1]), "--json", str(result)]
    print(f"\n$ paro {' '.join(arguments[:-2])}\n{run_paro(options, arguments, 500)}")
    return json.loads(result.read_text())


def plan_and_train(options):
    strategy = plan(options)
    train(options, strategy, SMALL, 40)


def bars(trials, title):
    """A bar per strategy, a step's time by what it went into."""
    left, top, row, width = 70, 50, 26, 640
    height = top + row * len(trials) + 60
    longest = max(sum(t[k] for _, keys, _ in PARTS for k in keys) for t in trials)
    text = demo_picture.text
    parts = [text(left, 28, title, "start", 15)]
    for index, trial in enumerate(trials):
        y, x = top + index * row, float(left)
        parts.append(text(left - 8, y + 15, trial["strategy"], "end"))
        for _, keys, colour in PARTS:
            length = sum(trial[key] for key in keys) / longest * width
            parts.append(f'<rect x="{x:.1f}" y="{y}" width="{max(length, 0):.1f}" height="{row - 6}" '
                         f'fill="{colour}"/>')
            x += length
        parts.append(text(x + 6, y + 15, f"{trial['step_s'] * 1e3:.0f} ms", "start"))
    for index, (name, _, colour) in enumerate(PARTS):
        x = left + index * 170
        parts.append(f'<rect x="{x}" y="{height - 36}" width="14" height="14" fill="{colour}"/>')
        parts.append(text(x + 20, height - 24, name, "start"))
    return demo_picture.svg(left + width + 90, height, parts)


def ablation(options):
    trials = train(options, "all", LARGE, 10)
    title = (f"One step of {UNITS} units x {LARGE[0] * 4 // 2**20} MiB, {options.groups} ranks, "
             f"{options.rails} rails of {options.rail_rate}")
    pathlib.Path(options.svg).write_text(bars(trials, title))
    print(f"picture: {options.svg}")
