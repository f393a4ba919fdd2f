"""Tables and results as Markdown, on standard output."""

import os

from comparison import targets
from comparison.configs import OURS
from measure.report import bytes_text, table, time_text


def cell_text(record, scenario, name, collective, size):
    cell = record.cell(scenario.name, name, collective, size)
    if cell is None:
        return "-"
    value = targets.share(record, scenario, cell, collective, size)
    text = time_text(cell.median)
    if value is not None and size >= 1024:
        text += f" ({value:.3f})" if value <= 1.0 else f" (**{value:.3f} broken**)"
    return text


def spread_text(cell):
    """How far the rounds lie apart, in per cent of the median."""
    return f"{(cell.most - cell.least) / cell.median * 100:.0f} %, {cell.rounds}"


def limit_text(record, scenario, collective, size):
    limit = record.limit(scenario.name)
    if not limit or scenario.groups < 2:
        return "-"
    return time_text(scenario.boundary_bytes(collective, size) / limit * 1e6)


def table_row(record, scenario, collective, size, names):
    best = targets.best_peer(record, scenario, collective, size)
    mine = targets.ours(record, scenario, collective, size)
    cells = [bytes_text(size), limit_text(record, scenario, collective, size)]
    cells += [cell_text(record, scenario, name, collective, size) for name in names]
    cells.append(spread_text(mine) if mine else "-")
    if best:
        name, cell = best
        text = cell_text(record, scenario, name, collective, size)
        cells.append(f"{name}: {text}")
        cells.append(f"{cell.median / mine.median:.2f}x" if mine else "-")
    elif targets.peers(record, scenario, collective):
        cells += ["-", "-"]
    return cells


def own_names(record, scenario, collective):
    return [n for n in record.configs(scenario.name, collective) if n.startswith(OURS)]


def main_table(record, scenario, collective):
    names = own_names(record, scenario, collective)
    head = ["size", "limit", *names, "spread of the first, rounds"]
    if targets.peers(record, scenario, collective):
        head += ["best peer", "best peer / ours"]
    measured = [size for size in scenario.sizes if any(record.cell(scenario.name, name, collective, size)
                                                       for name in record.configs(scenario.name, collective))]
    return table(head, [table_row(record, scenario, collective, size, names) for size in measured])


def peer_table(record, scenario, collective):
    names = targets.peers(record, scenario, collective)
    if not names:
        return []
    rows = [(bytes_text(size), *(cell_text(record, scenario, name, collective, size) for name in names))
            for size in scenario.sizes]
    return ["", f"Every peer's {collective}:", "",
            *table(("size", *names), [row for row in rows if any(cell != "-" for cell in row[1:])])]


def latencies(record, scenario, collective):
    """Percentiles of single operations and the overlap ratio, ours."""
    rows = []
    for size in scenario.sizes:
        extras = [s.extra for s in record.samples if (s.scenario, s.config, s.collective, s.size)
                  == (scenario.name, f"{OURS} auto", collective, size) and "time_p50" in s.extra]
        if extras:
            extra, ratio = extras[-1], extras[-1].get("overlap_ratio")
            rows.append((bytes_text(size), extra["algorithm"], *(time_text(extra[f"time_p{p}"]) for p in (50, 95, 99)),
                         "-" if ratio is None else f"{ratio:.3f}"))
    return ["", f"Single operations of {collective} (slowest rank of each), last round:", "",
            *table(("size", "algorithm", "p50", "p95", "p99", "overlap ratio"), rows)]


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
        lines += [f"#### {collective}, {scenario.title}", ""]
        lines += main_table(record, scenario, collective)
        lines += peer_table(record, scenario, collective)
        lines += [*latencies(record, scenario, collective), ""]
    return lines


def facts_lines(record):
    facts = record.facts
    emulation = facts.get("emulation", "none")
    how = {"namespaces": "network namespaces, links shaped by HTB",
           "paced": "loopback, rails paced by the sender"}.get(emulation, "not emulated")
    lines = [f"Measured {facts['date']} with `{facts['command'].strip()}`: {facts['rounds']} "
             f"interleaved rounds, {facts['rail_mbit']} Mbit/s per rail each way, emulation: "
             f"{emulation} ({how}), {os.cpu_count()} cores, fp32, medians.",
             "In brackets: share of the limit. "
             "A peer's size is left out after round 1 where it is far behind the best peer."]
    if facts.get("left out"):
        lines += ["", "Left out: " + "; ".join(facts["left out"]) + "."]
    return lines


def failure_lines(record):
    seen = {}
    for failure in record.failures:
        seen.setdefault((failure["config"], failure["collective"]), failure["text"])
    lines = ["", "### What failed", ""] if seen else []
    return lines + [f"- {config}, {collective}: {text}" for (config, collective), text in seen.items()]


def target_lines(results, broken):
    passed = sum(result.passed for result in results)
    lines = ["", f"### Targets: {passed} of {len(results)} met", ""]
    lines += [f"- {result.text()}" for result in results]
    if broken:
        lines += ["", "Broken measurements (a share above 1 cannot be):", ""]
        lines += [f"- {text}" for text in broken]
    return lines


def report(record, scenarios):
    """Prints everything; true if something was measured wrongly."""
    results = targets.all_targets(record, scenarios)
    broken = targets.broken_shares(record, scenarios)
    lines = facts_lines(record) + target_lines(results, broken)
    for scenario in scenarios.values():
        lines += scenario_section(record, scenario)
    lines += failure_lines(record)
    print("\n".join(lines))
    return bool(broken) or not results[0].passed
