"""train_gpt under each system in turn: computation is real here, and something is learned.

The baselines are the strategies that those systems have, with flat rings between all ranks, one for every NIC: ddp and zero1
reduce gradients once per step, zero2 and zero3 in every micro-batch.
"""
import datetime
import json
import os
import pathlib
from statistics import median

from measure.report import save
from measure.runner import Progress, must_run

NAME = "gpt"
WHAT = "train_gpt, computing for real"
# name, strategy, whether it is a baseline
SYSTEMS = (("NNG", "NNG", False), ("NII", "NII", False), ("NGG", "NGG", False), ("III", "III", False),
           ("IIG", "IIG", False), ("GGG", "GGG", False), ("ddp", "NNN", True), ("zero1", "NNG", True),
           ("zero2", "NGG", True), ("zero3", "GGG", True))
RATIOS = (("IIG", "zero3"), ("NII", "zero2"), ("III", "zero3"), ("GGG", "zero3"), ("NGG", "zero2"))
GPT = {"layers": 4, "width": 96, "context": 64, "batch": 2, "accumulation": 4}
STEPS = 3  # the first of them is not counted: it also makes connections
PARTS = ("step", "compute", "exposed", "update", "hooks")
GROUPS, RANKS, RAILS, RATE = "2x2", 4, 2, 20  # a NIC for every rank of a node, Mbit/s of a rail
FILE = f"{NAME}-{RAILS}.json"


def train(tools, system, folder):
    """One training; the lines of its log of steps and those with losses."""
    name, strategy, baseline = system
    log, losses = folder / f"{name}-steps.jsonl", folder / f"{name}-losses.jsonl"
    log.unlink(missing_ok=True)
    sizes = [word for key, value in GPT.items() for word in (f"--{key}", str(value))]
    command = [str(tools / "horing"), "run", "--quiet", "--rank0-raw", "-n", GROUPS, "--rails", str(RAILS), "--rail-rate",
               f"{RATE}mbit", "--timeout", "3000", "--", str(tools / "train_gpt"), "--strategy", strategy, "--steps",
               str(STEPS), *sizes, "--json", str(losses), "--algorithm", "multi_ring" if baseline else "ho_ring"]
    must_run(command, environment={"PARO_STEP_LOG": str(log)})
    return [[json.loads(line) for line in path.read_text().splitlines()] for path in (log, losses)]


def row_of(system, runs):
    """As a row of paro-bench's, as far as there is such a thing here."""
    name, strategy, baseline = system
    lines = [line for steps, _ in runs for line in steps[1:]]
    middle = {part: median(line["seconds"][part] for line in lines) for part in PARTS}
    last = lines[-1]
    return {"system": name, "strategy": strategy, "baseline": baseline, "compute_factor": 1,
            "world_algorithm": "multi_ring" if baseline else "ho_ring",
            "steps_s": [line["seconds"]["step"] for line in lines],
            **{f"{part}_s": seconds for part, seconds in middle.items()},
            # What is left of a step: the loss, the next batch, the output of the step.
            "idle_s": max(0, 2 * middle["step"] - sum(middle.values())),
            "intra_bytes": last["sent_bytes"]["intra"], "inter_bytes": last["sent_bytes"]["inter"],
            "memory_bytes": last["memory_bytes"]["peak"],
            "predicted_memory_bytes": last["memory_bytes"]["predicted"],
            "loss": runs[-1][1][-1]["loss"]}


def measure(tools, rounds, folder):
    """Writes FILE, and whether it could. A round is every system once, so that other work of the machine affects all of them equally."""
    if not os.access(tools / "train_gpt", os.X_OK):
        print(f"\n{NAME}: left out, {tools}/train_gpt is not built (libtorch-dev, -Dtorch=enabled)")
        return False
    print(f"\n{WHAT}: {GROUPS}, {RAILS} NICs a node of {RATE} Mbit/s, {GPT}", flush=True)
    runs = {system: [] for system in SYSTEMS}
    progress = Progress(rounds * len(SYSTEMS))
    for turn in range(rounds):
        for system in SYSTEMS:
            with progress.step(f"round {turn + 1}, {system[0]}"):
                runs[system].append(train(tools, system, folder))
    save(folder / FILE, {
        "run": {"name": pathlib.Path(FILE).stem, "groups": GROUPS, "rails": RAILS, "rate": RATE,
                "date": str(datetime.date.today())},
        "config": {"model": "GPT " + ", ".join(f"{key} {value}" for key, value in GPT.items()),
                   "ranks": RANKS, "micro_batch": GPT["batch"], "accumulation": GPT["accumulation"],
                   "sequence": GPT["context"], "dtype": "float32", "rounds": rounds, "steps": STEPS - 1},
        "results": [row_of(system, runs[system]) for system in SYSTEMS]})
    return True
