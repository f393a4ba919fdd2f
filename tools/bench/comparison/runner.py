"""Runs a scenario's configurations, interleaved, on a cluster that is already up.

In each round every configuration measures every size once, so that a slow minute of the machine
hits all of them. A process that fails or hangs costs its own cell only.
"""

import json
import os
import time

from comparison import configs as configurations
from comparison.model import OURS, Sample, most_operations
from measure.report import MIB
from measure.runner import Job, Progress, run_job, say

START_SECONDS = 60  # of a job, on top of what its operations should take
CPU_SECONDS = 6.0
CPU_SETTLE_SECONDS = 4.0


class Runner:
    def __init__(self, record, scenario, setup, options):
        self.record, self.scenario, self.setup, self.options = record, scenario, setup, options

    # What is worth running ------------------------------------------------------------------

    def sizes_for(self, config, collective, round_number):
        sizes = [s for s in self.scenario.sizes if config.covers(collective, s)]
        smallest = self.scenario.ranks * 4 if collective != "all_reduce" else 4
        sizes = [s for s in sizes if s >= smallest]
        return [s for s in sizes if not self.skip(config, collective, s, round_number)]

    def skip(self, config, collective, size, round_number):
        """Cells that cannot change the comparison: a peer far behind the best peer, and cells that
        take very long, after the second round."""
        if round_number == 0:
            return False
        mine = self.record.cell(self.scenario.name, config.name, collective, size)
        if mine is None:
            return True  # failed before
        seconds = mine.median * most_operations(size) / 1e6
        if seconds > self.options.slow_seconds and round_number >= 2:
            return True
        best = self.record.best_peer(self.scenario, collective, size)
        return config.library != OURS and best is not None and mine.median > self.options.prune * best[1].median

    # Running ----------------------------------------------------------------------------------

    def run(self):
        configs = configurations.all_configs(self.setup, self.scenario)
        jobs = [
            (collective, config)
            for collective in self.scenario.collectives
            for config in configs
            if collective in config.collectives
        ]
        progress = Progress(len(jobs) * self.options.rounds)
        for round_number in range(self.options.rounds):
            for collective, config in jobs:
                with progress.step(f"{self.scenario.name} round {round_number + 1}: {collective}, {config.name}"):
                    self.measure(config, collective, round_number)
                    self.record.save()

    def measure(self, config, collective, round_number):
        sizes = self.sizes_for(config, collective, round_number)
        if not sizes:
            return
        runs = [(size, most_operations(size)) for size in sizes]
        json_file = self.fresh_file("result.json")
        argv, environment = config.command(self.scenario, collective, runs, json_file)
        outcome = run_job(argv, min(self.timeout_s(collective, runs), config.most_seconds), environment)
        self.read_results(config, collective, round_number, json_file)
        if outcome.failure():
            self.note_failure(config, collective, round_number, outcome.short_failure())

    def timeout_s(self, collective, runs):
        """Seconds: far more than one rail would need, and room for latency and start-up."""
        needed = 0.0
        for size, count in runs:
            crossing = self.scenario.boundary_bytes(collective, size) or size
            needed += count * (crossing / (self.options.rail_mbit * 1e6 / 8) * 2 + 0.02)
        return START_SECONDS + min(4 * needed, self.options.job_seconds)

    def fresh_file(self, name):
        """A path in the scratch folder with nothing there."""
        path = os.path.join(self.setup.scratch, name)
        if os.path.lexists(path):
            os.remove(path)
        return path

    def read_results(self, config, collective, round_number, json_file):
        try:
            with open(json_file, encoding="utf-8") as file:
                content = json.load(file)
        except (OSError, ValueError):
            return
        for row in content["results"]:
            measured = row["out_of_place"]
            keys = ("overlap_ratio", "time_p50", "time_p95", "time_p99")
            extra = {key: measured[key] for key in keys if key in measured}
            if "algorithm" in row:
                extra["algorithm"] = row["algorithm"]
            self.record.samples.append(
                Sample(self.scenario.name, config.name, collective, row["size"], round_number,
                       measured["time"], measured["nwrong"] or 0, row["actual_iterations"], extra)
            )
        ours = content.get("config", {})  # the peers' programs write none
        if limit := ours.get("link_limit_bytes_per_second"):
            entry = {"scenario": self.scenario.name, "round": round_number,
                     "bytes_per_second": limit}
            self.record.limits.append(entry)
        if "startup_ms" in ours:
            key = f"startup_ms {self.scenario.shape}"
            self.record.facts.setdefault(key, []).append(ours["startup_ms"])
        if "emulation" in ours:
            self.record.facts["emulation"] = ours["emulation"]

    def note_failure(self, config, collective, round_number, text):
        say(f"  {config.name}: {text}")
        self.record.failures.append(
            {"scenario": self.scenario.name, "config": config.name, "collective": collective,
             "round": round_number, "text": text}
        )

    # CPU --------------------------------------------------------------------------------------

    def measure_cpu(self):
        """Cores busy while 16 MiB operations run back to back, in the steady state."""
        progress = Progress(len(self.scenario.collectives))
        for collective in self.scenario.collectives:
            config = configurations.ours(self.setup, "auto")
            crossing = self.scenario.boundary_bytes(collective, 16 * MIB)
            each = crossing / (self.options.rail_mbit * 1e6 / 8 * max(self.scenario.rails, 1))
            count = max(20, int((CPU_SECONDS + CPU_SETTLE_SECONDS) / max(each, 1e-3) * 1.3))
            json_file = self.fresh_file("cpu.json")
            argv, _ = config.command(self.scenario, collective, [(16 * MIB, count)], json_file)
            with progress.step(f"busy cores: {collective}"):
                job = Job(argv)
                try:
                    busy = self.sample_busy(job)
                finally:
                    job.end()
            if busy is not None:
                self.record.facts.setdefault("cores_busy_16MiB", {})[collective] = busy
                self.record.facts["cores"] = os.cpu_count()
        self.record.save()

    def sample_busy(self, job):
        time.sleep(CPU_SETTLE_SECONDS)
        before, start = busy_seconds(), time.monotonic()
        time.sleep(CPU_SECONDS)
        busy = (busy_seconds() - before) / (time.monotonic() - start)
        return busy if job.running() else None


def busy_seconds():
    """Seconds that all cores together were not idle, since boot."""
    with open("/proc/stat", encoding="ascii") as file:
        fields = [int(word) for word in file.readline().split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq = fields[:7]
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
