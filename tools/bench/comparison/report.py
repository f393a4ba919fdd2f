"""Tables and results as Markdown, on standard output."""

import os

from comparison import rows
from comparison.model import OURS
from measure.report import bytes_text, table, time_text


def row_table(head, some):
    """Of rows.py's rows, of one cluster and collective."""
    return table(head[4:], [[cell or "-" for cell in row] for row in some])


def latencies(record, scenario, collective):
    """Percentiles of single operations and the overlap ratio, ours."""
    rows_of_sizes = []
    for size in scenario.sizes:
        extras = [s.extra for s in record.samples if (s.scenario, s.config, s.collective, s.size)
                  == (scenario.name, f"{OURS} auto", collective, size) and "time_p50" in s.extra]
        if extras:
            extra, ratio = extras[-1], extras[-1].get("overlap_ratio")
            rows_of_sizes.append((bytes_text(size), extra["algorithm"],
                                  *(time_text(extra[f"time_p{p}"]) for p in (50, 95, 99)),
                                  "-" if ratio is None else f"{ratio:.3f}"))
    return ["", f"Single operations of {collective} (slowest rank of each), last round:", "",
            *table(("size", "algorithm", "p50", "p95", "p99", "overlap ratio"), rows_of_sizes)]


def scenario_section(record, scenario):
    if not any(s.scenario == scenario.name for s in record.samples):
        return []
    lines = ["", f"### {scenario.title}", ""]
    limit = record.limit(scenario.name)
    if limit:
        lines += [f"Limit: {limit / 1e6:.2f} MB/s per node and direction, the payload rate of "
                  "plain TCP on the same rails in the same run.", ""]
    for collective in scenario.collectives:
        if not record.configs(scenario.name, collective):
            continue
        summaries = [row for size in scenario.sizes if (row := rows.summary(record, scenario, collective, size))]
        libraries = [row for size in scenario.sizes for row in rows.libraries(record, scenario, collective, size)]
        lines += [f"#### {collective}, {scenario.title}", "", *row_table(rows.SUMMARY, summaries)]
        lines += ["", f"Every library's {collective}:", "", *row_table(rows.LIBRARIES, libraries)]
        lines += [*latencies(record, scenario, collective), ""]
    return lines


def facts_lines(record, main):
    facts = record.facts
    emulation = facts.get("emulation", "none")
    how = {"namespaces": "network namespaces, links shaped by HTB",
           "paced": "loopback, rails paced by the sender"}.get(emulation, "not emulated")
    lines = [f"Measured {facts['date']} with `{facts['command'].strip()}`: {facts['rounds']} "
             f"interleaved rounds, {facts['rail_mbit']} Mbit/s per rail each way, emulation: "
             f"{emulation} ({how}), {os.cpu_count()} cores, fp32, medians.",
             f"{len(record.samples)} measurements, in each of which every byte of the result was compared. "
             "A peer's size is left out after round 1 where it is far behind the best peer."]
    if facts.get("left out"):
        lines += ["", "Left out: " + "; ".join(facts["left out"]) + "."]
    for collective, busy in facts.get("cores_busy_16MiB", {}).items():
        lines += ["", f"{collective} of 16 MiB keeps {busy:.2f} of {facts['cores']} cores busy."]
    if startups := facts.get(f"startup_ms {main.shape}"):
        lines += ["", f"A communicator of {main.ranks} ranks started within {max(startups):.0f} ms, {len(startups)} times."]
    return lines


def failure_lines(record):
    seen = {}
    for failure in record.failures:
        seen.setdefault((failure["config"], failure["collective"]), failure["text"])
    lines = ["", "### What failed", ""] if seen else []
    return lines + [f"- {config}, {collective}: {text}" for (config, collective), text in seen.items()]


def broken_lines(record, scenarios):
    """Wrong results, and what beat the limit, of any library: the measurement is broken there."""
    found = [f"{sample.config}, {sample.collective}, {bytes_text(sample.size)}: {sample.wrong} wrong elements"
             for sample in record.samples if sample.wrong]
    for scenario in scenarios.values():
        for collective in scenario.collectives:
            for name in record.configs(scenario.name, collective):
                shares = [(size, record.share(scenario, name, collective, size)) for size in scenario.sizes]
                found += [f"{scenario.title}, {collective}, {bytes_text(size)}, {name}: {share:.3f} of the limit, above 1"
                          for size, share in shares if share and share > 1.0]
    return ["", "### Broken measurements", "", *(f"- {text}" for text in found)] if found else []


def report(record, scenarios):
    """Prints everything; true if something was measured wrongly."""
    broken = broken_lines(record, scenarios)
    lines = facts_lines(record, scenarios["main"]) + broken
    for scenario in scenarios.values():
        lines += scenario_section(record, scenario)
    lines += failure_lines(record)
    print("\n".join(lines))
    return bool(broken)
