"""Two builds of this project against each other in one run: their programs take turns within each round."""

import argparse
import datetime
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from comparison import against_report
from comparison.model import most_operations
from measure import report
from measure.report import MIB, bytes_text, parse_sizes
from measure.runner import Outcome, Progress, lacking, run_job, say

REPORT = "against"  # .json and .md, in the build
SIZES, QUICK_SIZES = "4K,64K,1M,16M", "64K,1M"
PLUGIN_SIZES = "64K,1M,4M"
ROUNDS, QUICK_ROUNDS = 11, 6  # the second: the fewest that give an interval of 95 %
CALLS, PLUGIN_CALLS = 10000, 2000  # of the smallest operation in a job
LINKS = {"cluster": "emulated, rails at --rail-rate", "unlimited": "emulated, no limit",
         "loopback": "TCP over loopback", "one_node": "shared memory"}
SIDES = ("this", "other")
# Options of a build that change how fast it is.
BUILD_OPTIONS = ("buildtype", "optimization", "debug", "sanitize", "b_sanitize", "b_lto", "cpp_args")


@dataclass(frozen=True)
class Work:
    """One job, which both builds run: a collective at some sizes."""

    link: str
    collective: str
    kind: str  # "calls": the smallest operation, many times; "small"; "large": from 1 MiB
    runs: tuple[tuple[int, int], ...]  # (size, operations)


@dataclass
class Result:
    """What one build did of a work in one round."""

    times_us: dict[int, float] = field(default_factory=dict)
    cpu_s: float | None = None
    failure: str = ""


def shape_of(options: argparse.Namespace, link: str) -> str:
    nodes, _, ranks = options.shape.rpartition("x")
    return f"1x{ranks}" if link == "one_node" or not nodes else options.shape


def run_arguments(options: argparse.Namespace, link: str) -> list[str]:
    shape = shape_of(options, link)
    arguments = ["run", "--quiet", "--no-prefix", "-n", shape]
    if shape.startswith("1x"):
        return arguments
    if link == "loopback":
        return [*arguments, "--emulate", "none"]
    rate = "none" if link == "unlimited" else options.rail_rate
    return [*arguments, "--rails", str(options.rails), "--rail-rate", rate]


def works_of(options: argparse.Namespace) -> list[Work]:
    works = []
    for link in options.links.split(","):
        nodes, ranks = (int(number) for number in shape_of(options, link).split("x"))
        for collective in options.collectives.split(","):
            least = 8 if collective == "all_reduce" else max(8, nodes * ranks * 4)  # an element for each rank
            works.append(Work(link, collective, "calls", ((least, options.calls),)))
            sizes = [size for size in parse_sizes(options.sizes) if size > least]
            for kind, some in (("small", [s for s in sizes if s < MIB]), ("large", [s for s in sizes if s >= MIB])):
                if some:
                    works.append(Work(link, collective, kind, tuple((size, most_operations(size)) for size in some)))
    return works


def read_native(path: str) -> list[tuple[int, float, int]]:
    """[(size, us, wrong elements), ..] from a perf program's JSON."""
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)["results"]
    return [(row["size"], row["out_of_place"]["time"], row["out_of_place"]["nwrong"] or 0) for row in rows]


def read_plugin(output: str) -> list[tuple[int, float, int]]:
    """The same from plugin_perf's table: its first columns are CollNet's."""
    lines = [line.split() for line in output.splitlines()]
    return [(int(words[0]), float(words[5]), int(words[9])) for words in lines
            if len(words) > 10 and words[0].isdigit()]


class Build:
    def __init__(self, folder: str):
        self.folder = os.path.abspath(folder)
        self.tools = os.path.join(self.folder, "tools")
        self.plugin = os.path.join(self.folder, "plugin", "libnccl-net-horing.so")

    def lacks(self, options: argparse.Namespace) -> str:
        programs = [f"{collective}_perf" for collective in options.collectives.split(",")]
        if options.plugin and not os.path.exists(self.plugin):
            return f"{self.folder}/plugin lacks {os.path.basename(self.plugin)}: build it, or name another build"
        return lacking(self.folder, ["horing", *(["plugin_perf"] if options.plugin else programs)])

    def version(self) -> str:
        return run_job([os.path.join(self.tools, "horing"), "--version"], 60).output.strip()

    def options(self) -> dict[str, Any]:
        try:
            with open(os.path.join(self.folder, "meson-info", "intro-buildoptions.json"), encoding="utf-8") as file:
                return {entry["name"]: entry["value"] for entry in json.load(file) if entry["name"] in BUILD_OPTIONS}
        except (OSError, ValueError, LookupError, TypeError):
            return {}

    def environment(self) -> dict[str, str]:
        """Its own libraries are found first, whatever is installed."""
        folders = [os.path.join(self.folder, "src", "capi"), os.path.join(self.folder, "plugin")]
        before = os.environ.get("LD_LIBRARY_PATH")
        return {"LD_LIBRARY_PATH": ":".join(folders + ([before] if before else [])), "NCCL_NET_PLUGIN": self.plugin}

    def measure(self, options: argparse.Namespace, work: Work, json_file: str) -> Result:
        sizes = ",".join(f"{size}:{count}" for size, count in work.runs)
        command = [os.path.join(self.tools, "horing"), *run_arguments(options, work.link), "--"]
        if options.plugin:
            command += [os.path.join(self.tools, "plugin_perf"), "--paths", "collnet", "--rounds", "1", "--collectives",
                        work.collective]
        else:
            command += [os.path.join(self.tools, work.collective + "_perf"), "--place", "out", "-J", json_file]
        outcome = run_job([*command, "--sizes", sizes, "--no-link-limit"], options.job_seconds, self.environment())
        result = Result(cpu_s=outcome.cpu_s, failure=outcome.short_failure())
        return result if result.failure else self.read(options, work, outcome, json_file, result)

    def read(self, options: argparse.Namespace, work: Work, outcome: Outcome, json_file: str, result: Result) -> Result:
        try:
            rows = read_plugin(outcome.output) if options.plugin else read_native(json_file)
        except (OSError, ValueError, LookupError, TypeError) as error:
            return Result(failure=f"printed no measurement ({error})")
        result.times_us = {size: time for size, time, _ in rows}
        wrong = sum(row[2] for row in rows)
        if wrong or set(result.times_us) != {size for size, _ in work.runs}:
            return Result(failure=f"{wrong} wrong elements" if wrong else "did not measure every size")
        return result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("two builds").add_argument
    add("--against", metavar="BUILD", help="compare --build with this build of the project, taking turns")
    add("--plugin", action="store_true", help="CollNet through the NCCL plugins of both (plugin_perf)")
    add("--links", help=f"of {', '.join(f'{name} ({what})' for name, what in LINKS.items())} [cluster]")
    add("--rail-rate", metavar="RATE", help="of a rail, as 1gbit; none: no limit [--rail-mbit]")
    add("--calls", type=int, metavar="N", help=f"smallest operations in a job [{CALLS}, of the plugin {PLUGIN_CALLS}]")
    add("--report", metavar="FILE", help="write FILE.json and the tables to FILE.md [BUILD/against]")


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Fills in what was not given; refuses what would fail only after minutes."""
    if not options.against:
        for name in ("plugin", "links", "rail_rate", "calls", "report"):
            if getattr(options, name):
                parser.error(f"--{name.replace('_', '-')} goes with --against")
        return
    for name in ("scenarios", "json", "source", "rows", "run"):
        if getattr(options, name):
            parser.error(f"--{'from' if name == 'source' else name} does not go with --against")
    options.rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    options.sizes = options.sizes or (QUICK_SIZES if options.quick else PLUGIN_SIZES if options.plugin else SIZES)
    options.calls = options.calls or (PLUGIN_CALLS if options.plugin else CALLS) // (5 if options.quick else 1)
    options.links = options.links or "cluster"
    options.rail_rate = options.rail_rate or f"{options.rail_mbit}mbit"
    options.report = os.path.splitext(options.report or os.path.join(options.build, REPORT))[0]
    for link in options.links.split(","):
        if link not in LINKS:
            parser.error(f"--links {link}: takes some of {', '.join(LINKS)}, with commas between")
        if options.plugin and shape_of(options, link).startswith("1x"):
            parser.error("--plugin: CollNet runs between nodes, not on one")
    if min(options.rounds, options.calls) < 1:
        parser.error("--rounds and --calls take whole numbers from 1")


def check_folders(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    for build in (options.build, options.against):
        if lacks := Build(build).lacks(options):
            parser.error(lacks)
    if problem := report.folder_for(options.report, "--report"):
        parser.error(problem)


def facts_of(options: argparse.Namespace, builds: dict[str, Build]) -> dict[str, Any]:
    return {"command": "tools/bench/compare " + " ".join(sys.argv[1:]), "date": datetime.date.today().isoformat(),
            "cores": os.cpu_count(), "rounds": options.rounds, "plugin": options.plugin,
            "links": {link: f"horing {' '.join(run_arguments(options, link))}" for link in options.links.split(",")},
            "builds": {side: {"folder": build.folder, "version": build.version(), "options": build.options()}
                       for side, build in builds.items()}}


def measure(options: argparse.Namespace, builds: dict[str, Build], scratch: str) -> list[dict[str, Any]]:
    """Per work both builds' results, round by round."""
    works = works_of(options)
    results: dict[Work, dict[str, list[Result]]] = {work: {side: [] for side in SIDES} for work in works}
    progress = Progress(options.rounds * len(works) * len(SIDES))
    for number in range(options.rounds):
        for work in works:
            # AB, then BA: an effect of the machine on the second of a pair then affects both equally.
            for side in SIDES if number % 2 == 0 else SIDES[::-1]:
                sizes = ", ".join(bytes_text(size) for size, _ in work.runs)
                with progress.step(f"round {number + 1}: {work.link}, {work.collective}, {sizes}, {side} build"):
                    json_file = os.path.join(scratch, f"{side}.json")
                    result = builds[side].measure(options, work, json_file)
                    if os.path.exists(json_file):
                        os.remove(json_file)
                results[work][side].append(result)
                if result.failure:
                    say(f"  {side} build: {result.failure}")
    return [{**asdict(work), **{side: [asdict(result) for result in some] for side, some in by_side.items()}}
            for work, by_side in results.items()]


def run(options: argparse.Namespace) -> int:
    """Measures and reports; 0 where every line meets its rule."""
    builds = dict(zip(SIDES, (Build(options.build), Build(options.against))))
    facts = facts_of(options, builds)
    for line in against_report.difference_lines(facts["builds"]):
        say(line)
    with tempfile.TemporaryDirectory(prefix="horing-against-", ignore_cleanup_errors=True) as scratch:
        jobs = measure(options, builds, scratch)
    return write(options.report, {"facts": facts, "jobs": jobs})


def write(path: str, record: dict[str, Any]) -> int:
    lines: Sequence[against_report.Line] = against_report.lines_of(record["jobs"])
    text = "\n".join(against_report.page(record["facts"], lines, record["jobs"]))
    report.save(path + ".json", {**record, "lines": [asdict(line) for line in lines]})
    with open(path + ".md", "w", encoding="utf-8") as file:
        file.write(text + "\n")
    print(f"{text}\n\nreport: {path}.md, {path}.json")
    return 0 if lines and all(line.passed for line in lines) else 1
