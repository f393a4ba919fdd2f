#!/usr/bin/env python3
"""The three collectives with three algorithms on an emulated cluster: a table and a picture. Then the
planner's choice for a small model there, and training with it; or, with --ablation, that model with
each of the 14 strategies.

usage: demo.py [--build build] [--svg build/quickstart.svg] [--groups 4x4] [--rails 4]
               [--rail-rate 200mbit] [--sizes 64K,256K,1M,4M] [--ablation]

All measurements run on one cluster: this script starts itself inside `horing cluster`.
"""
import argparse
import json
import os
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "bench"))

# pylint: disable=wrong-import-position
import demo_picture  # noqa: E402
import demo_training  # noqa: E402
from measure.report import MIB, bytes_text, parse_sizes, text_table  # noqa: E402
from measure.runner import JobFailed, Progress, lacking, must_run, run_command  # noqa: E402

COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce")
ALGORITHMS = ("ring", "multi_ring", "ho_ring")
NAMES = {"ring": "flat ring", "multi_ring": "multi-rail ring", "ho_ring": "HO-Ring"}
ITERATIONS = 20  # timed for each size
PICTURES = {False: "build/quickstart.svg", True: "build/ablation.svg"}  # by --ablation


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--build", default="build", help="[%(default)s]")
    add("--svg", help="where the picture goes [build/quickstart.svg, or build/ablation.svg]")
    add("--groups", default="4x4", help="nodes x ranks [%(default)s]")
    add("--rails", default="4", help="[%(default)s]")
    add("--rail-rate", default="200mbit", help="[%(default)s]")
    add("--sizes", default="64K,256K,1M,4M", help="total bytes of an operation [%(default)s]")
    add("--ablation", action="store_true",
        help="instead: train a small model with each of the 14 strategies")
    add("--inner", action="store_true", help=argparse.SUPPRESS)
    add("--check-options", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    check(parser, options)
    if not options.svg:
        options.svg = PICTURES[options.ablation]
    return options


def check(parser, options):
    """Refuses what would fail only after the build or the first measurement."""
    try:
        parse_sizes(options.sizes)
    except ValueError:
        parser.error(f"--sizes {options.sizes}: takes sizes with commas between, as 64K,1M,4M")


def measure(options, collective, algorithm, sizes, iterations):
    """The rows of a perf program's JSON, by running it as a job."""
    output = pathlib.Path(options.scratch) / "result.json"
    output.unlink(missing_ok=True)
    tools = pathlib.Path(options.build) / "tools"
    command = [str(tools / "horing"), "run", "-q", "-n", options.groups, "--timeout", "100", "--",
               str(tools / f"{collective}_perf"), "--algorithm", algorithm, "--sizes",
               ",".join(map(str, sizes)), "-n", str(iterations), "-w", "2", "-c", "1", "--place",
               "out", "-J", str(output)]
    must_run(command)
    report = json.loads(output.read_text())
    emulation = report["config"]["emulation"] or os.environ.get("HORING_EMULATION", "")
    rows = []
    for size, row in zip(sizes, report["results"], strict=True):
        measured = row["out_of_place"]
        if measured["nwrong"] != 0:
            raise JobFailed(f"{collective} with {algorithm}, {size} bytes: {measured['nwrong']} wrong elements")
        rows.append({**measured, "collective": collective, "algorithm": algorithm, "size": size,
                     "emulation": emulation})
    return rows


def measure_all(options):
    sizes = parse_sizes(options.sizes)
    # Long operations need fewer repetitions: one job for them, one for the others.
    parts = [([s for s in sizes if s < 8 * MIB], ITERATIONS), ([s for s in sizes if s >= 8 * MIB], ITERATIONS // 5)]
    work = [(c, a, some, n) for some, n in parts if some for c in COLLECTIVES for a in ALGORITHMS]
    progress = Progress(len(work))
    rows = []
    for collective, algorithm, some, iterations in work:
        with progress.step(f"{collective}, {NAMES[algorithm]}, {', '.join(map(bytes_text, some))}"):
            rows += measure(options, collective, algorithm, some, iterations)
    order = {name: index for index, name in enumerate(COLLECTIVES + ALGORITHMS)}
    return sorted(rows, key=lambda r: (order[r["collective"]], r["size"], order[r["algorithm"]]))


def number(value, digits):
    return "-" if value is None else f"{float(value):.{digits}f}"


def table(rows):
    head = ("collective", "size", "algorithm", "time ms", "algbw GB/s", "busbw GB/s", "link share",
            "overlap", "p50 ms", "p95 ms", "p99 ms")
    lines = text_table(head, [
        (row["collective"], bytes_text(row["size"]), NAMES[row["algorithm"]],
         number(row["time"] / 1000, 2), number(row["alg_bw"], 3), number(row["bus_bw"], 3),
         number(row.get("link_share"), 3), number(row.get("overlap_ratio"), 2),
         *(number(row[f"time_p{p}"] / 1000, 2) for p in (50, 95, 99))) for row in rows], left=(0, 2))
    # A line of space below each size.
    return "\n".join(lines[:2] + [line + "\n" * (row["algorithm"] == ALGORITHMS[-1])
                                  for line, row in zip(lines[2:], rows)])


def explanation(options, emulation):
    how = {
        "namespaces": "nodes are namespaces, rails are links shaped by the kernel (HTB)",
        "paced": "this machine does not permit shaped links: rails are loopback, paced by the "
                 "senders",
    }.get(emulation, f"emulation: {emulation}")
    return (f"{options.groups} ranks, {options.rails} rails of {options.rail_rate} each way, fp32; {how}.\n"
            "Every byte of every result was checked. link share: bytes that must enter a node, per\n"
            "second, over what plain TCP reaches on the same rails in the same run. overlap: how much\n"
            "of the shorter lane (inside nodes, between nodes) ran while the other did.")


def inner(options):
    if options.ablation:
        demo_training.ablation(options)
        return
    rows = measure_all(options)
    emulation = rows[0]["emulation"]
    print("\n" + table(rows))
    print(explanation(options, emulation))
    panels = [(c, {NAMES[a]: [(r["size"], r["time"]) for r in rows
                              if r["collective"] == c and r["algorithm"] == a]
                   for a in ALGORITHMS}) for c in COLLECTIVES]
    how = "rails shaped by HTB" if emulation == "namespaces" else "rails paced by the senders"
    title = f"{options.groups} ranks, {options.rails} rails of {options.rail_rate}, {how}"
    pathlib.Path(options.svg).write_text(demo_picture.draw(title, panels, bytes_text))
    print(f"\npicture: {options.svg}")
    demo_training.plan_and_train(options)


def main():
    options = parse_options()
    if options.check_options:
        return 0
    if options.inner:
        with tempfile.TemporaryDirectory(prefix="horing-demo-") as options.scratch:
            inner(options)
        return 0
    if missing := lacking(options.build, ["horing", *(f"{collective}_perf" for collective in COLLECTIVES), "paro"]):
        sys.exit(f"demo.py: {missing}, with --build")
    command = [str(pathlib.Path(options.build) / "tools" / "horing"), "cluster", "-n",
               options.groups, "--rails", options.rails, "--rail-rate", options.rail_rate, "--",
               sys.executable, os.path.abspath(__file__), "--inner", *sys.argv[1:]]
    os.execv(command[0], command)
    return 1


if __name__ == "__main__":
    run_command("demo.py", main)
