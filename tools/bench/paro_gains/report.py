"""The lab notebook of a change of strategy, filled in with what was measured."""
import os

from measure.report import check
from measure.report import table as table_lines
from paro_gains import gpt
from paro_gains.cases import published_regime
from paro_gains.rows import SYSTEMS, at_factor, of_system, step_of

WITHIN_PLAN = 0.15
NO_SLOWER = 0.98
SCALES = 0.92
SAME_LOSS = 1e-3


def table(head, rows):
    return "\n".join(table_lines(head, rows))


def ms(seconds):
    return f"{seconds * 1e3:.0f}"


def baseline_capture(result):
    config = result["config"]
    rows = [of_system(config, row) for row in at_factor(result) if row["baseline"]]
    return (f'{config["ranks"]} ranks ({result["groups"]}), {result["rails"]} NICs a node of {result["rate"]} '
            f'Mbit/s; measured inside {config["intra_bytes_per_s"] / 1e6:.0f} MB/s a rank, between '
            f'{config["inter_bytes_per_s"] / 1e6:.1f} MB/s a NIC: '
            f'{config["intra_bytes_per_s"] / config["inter_bytes_per_s"]:.0f} times. {config["parameters"]:.3g} '
            f'parameters, {config["trained"]:.3g} trained, times {config["scale"]:.3g}; times of the cluster that '
            f'is modelled times {config["time_scale"]:.3g}; {config["accumulation"]} micro-batches of '
            f'{config["micro_batch"]} x {config["sequence"]} tokens, {config["dtype"]}; computation '
            f'{ms(config["compute_s"])} ms a step.\n\n' +
            table(SYSTEMS, rows))


def transition_plan(result):
    rows = []
    for entry in result["comparisons"]:
        if entry["compute_factor"] == 1:
            ours = next(r for r in at_factor(result) if r["system"] == entry["recommended"])
            now = next(r for r in at_factor(result) if r["system"] == entry["baseline"])
            rows.append((entry["baseline"], entry["recommended"], ms(now["step_s"]), ms(ours["predicted_step_s"]),
                         ms(ours["step_s"]), f'{entry["ratio"]:.2f}', f'{ours["memory_bytes"] / 1e6:.2f}'))
    return ("What the planner takes in the memory of each baseline, how long a step should take, and what it "
            "took.\n\n" + table(("from", "to", "step now ms", "by plan", "measured", "times as fast", "memory MB"),
                                rows))


def has_world_collective(strategy):
    """Whether something is summed or gathered over all ranks: micro-batch by micro-batch, in sync-g, in sync-p."""
    parameters, gradients, optimizer = strategy
    return ("G" in (parameters, gradients) or (gradients, optimizer) in (("N", "N"), ("N", "G")) or
            (parameters, optimizer) == ("N", "G"))


def step_with_flat_rings(rows, ours, baseline):
    """Measured, or the strategy's own step where rings have nothing to change, or the baseline's where that is the
    same strategy with flat rings; else None."""
    same = any(row["system"] == baseline and row["strategy"] == ours for row in rows)
    return (step_of(rows, ours + "/ring") or
            (step_of(rows, baseline) if same else None) or
            (None if has_world_collective(ours) else step_of(rows, ours)))


def gain_split(case, result):
    rows = []
    factor_rows = at_factor(result)
    for (ours, baseline) in (("IIG", "zero3"), ("NII", "zero2"), ("III", "zero3"), ("ING", "zero3"),
                             ("GGG", "zero3"), ("NGG", "zero2")):
        fast, slow = step_of(factor_rows, ours), step_of(factor_rows, baseline)
        if not fast or not slow:
            continue
        ring = step_with_flat_rings(factor_rows, ours, baseline)
        theirs = dict(case.theirs).get((ours, baseline))
        rows.append((f"{ours} / {baseline}", f"{slow / fast:.2f}",
                     f"{slow / ring:.2f}" if ring else "-", f"{ring / fast:.2f}" if ring else "-",
                     theirs if theirs else "-"))
    return ("Times as fast, what of it the scopes alone give (the same strategy with flat rings), and what "
            "HO-Ring gives on top. *Published* is the authors' figure on their cluster, not ours, where computation takes "
            f"{published_regime(result['config']['trained'] / result['config']['parameters']):.3g} times ZeRO-3's "
            "communication.\n\n" +
            table(("ratio", "measured", "scopes", "HO-Ring", "published"), rows))


def validation(result):
    rows = [row for row in at_factor(result) if not row["baseline"] and row["world_algorithm"] == "ho_ring"]
    bytes_hold = all(row["inter_bytes"] == row["planned_inter_bytes"] and
                     row["intra_bytes"] == row["planned_intra_bytes"] for row in rows)
    memory = max(abs(row["memory_bytes"] / row["predicted_memory_bytes"] - 1) for row in rows)
    off = {row["system"]: row["step_s"] / row["predicted_step_s"] - 1 for row in rows
           if row["predicted_step_s"] > 0}
    far = {name: share for name, share in off.items() if abs(share) > WITHIN_PLAN}
    far_text = ", ".join(f"{name} {share:+.0%}" for name, share in sorted(far.items(), key=lambda i: -abs(i[1])))
    return "\n".join([
        f"- {check(bytes_hold)} every strategy sent the step plan's bytes, inside nodes and between",
        f"- {check(memory <= 0.05)} memory within 5 % of the prediction (furthest: {memory:.1%})",
        f"- {check(not far)} steps within {WITHIN_PLAN:.0%} of the plan's" +
        (f"; further away: {far_text}" if far else ""),
        "- [ ] losses equal one rank's: suites `parity`, `torch` and `tools/bench/convergence` show that; here nothing is "
        "learned"])


def acceptance(case, result):
    lines = []
    for entry in result["comparisons"]:
        if entry["compute_factor"] == 1:
            lines.append(f'- {check(entry["ratio"] >= NO_SLOWER)} {entry["recommended"]} in {entry["baseline"]}\'s '
                         f'memory is at least {NO_SLOWER} times as fast: {entry["ratio"]:.2f}')
    rows = at_factor(result)
    for (ours, baseline), theirs in case.theirs:
        fast, slow = step_of(rows, ours), step_of(rows, baseline)
        if fast and slow:
            lines.append(f"- {check(slow / fast >= theirs)} {ours} over {baseline} reaches the published {theirs}: "
                         f"{slow / fast:.2f}")
    return "\n".join(lines)


def scaling_text(scaling):
    if len(scaling) < 2:
        return ""
    rows = []
    for system in ("IIG", "zero3"):
        steps = [step_of(at_factor(result), system) for result in scaling]
        busy = [row["processors_busy"] for row in at_factor(scaling[-1])
                if row["system"] == system and "processors_busy" in row]
        rows.append((system, *map(ms, steps), f"{steps[0] / steps[1]:.3f}", f"{busy[0]:.0%}" if busy else "-"))
    first = scaling[0]
    efficiency = float(rows[0][3])
    return (f'\n## Scaling\n\nRails of {first["rate"]} Mbit/s for both; the step of a rank\'s own micro-batches, '
            f'so that 1 is linear.\n\n' +
            table(("system", *(f'{result["groups"]}, ms' for result in scaling), "efficiency",
                   f'cores busy, {scaling[-1]["groups"]}'), rows) +
            f"\n\n- {check(efficiency >= SCALES)} IIG at least {SCALES}\n")


def learned_text(result, pictures):
    """Of the case gpt."""
    rows = at_factor(result)
    table_rows = [(*of_system(result["config"], row), f'{row["loss"]:.5f}') for row in rows]
    ratios = [(f"{ours} / {baseline}", f"{step_of(rows, baseline) / step_of(rows, ours):.2f}")
              for ours, baseline in gpt.RATIOS]
    losses = [row["loss"] for row in rows]
    spread = max(losses) - min(losses)
    return (f'\n## {gpt.WHAT}\n\n{result["config"]["model"]}; {result["groups"]} ranks, {result["rails"]} NICs a '
            f'node of {result["rate"]} Mbit/s, {result["date"]}, medians of {result["config"]["rounds"]} rounds of '
            f'{result["config"]["steps"]} steps. Bytes and memory are rank 0\'s; idle is what is left of a step.\n\n' +
            "\n".join(pictures) + "\n" + table((*SYSTEMS, "loss"), table_rows) + "\n\n" + table(("ratio", "times as fast"), ratios) +
            f"\n\n- {check(spread <= SAME_LOSS)} the same loss after {gpt.STEPS} steps, to {SAME_LOSS:g}: "
            f"{spread:.1e}\n")


def text(runs, scaling, learned, pictures):
    parts = [f"# What partly redundant sharding gains\n\n{os.cpu_count()} cores; an "
             "emulated cluster: ranks are processes, nodes and rails are shaped by the kernel. Computation is "
             f"waited for{', but for train_gpt' if learned else ''}.\n"]
    for case, result in runs:
        parts.append(f'## {case.what}, {result["rails"]} NICs a node\n\n{result["date"]}:\n\n    {result["command"]}\n')
        parts += [*pictures[result["name"]], "### Baseline\n", baseline_capture(result), "\n### Transition plan\n", transition_plan(result),
                  "\n### Sources of the gains\n", gain_split(case, result), "\n### Checks\n",
                  validation(result), "\n### Beside the published figures\n", acceptance(case, result), ""]
    return ("\n".join(parts) + scaling_text(scaling) +
            (learned_text(learned, pictures[learned["name"]]) if learned else ""))
