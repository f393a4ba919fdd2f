"""What was measured as rows, and which pictures tools/results draws of them."""

from measure.report import picture_comment, save_rows

SYSTEMS = ("system", "step ms", "least", "most", "samples/s", "compute ms", "exposed ms", "idle ms", "update ms", "hooks ms",
           "MB inside", "MB between", "memory MB")
PARTS = ("compute_s", "exposed_s", "idle_s", "update_s", "hooks_s")
GAINS = ("computation / communication", "times as fast", "ratio")


def title_of(result) -> str:
    return (f'{result["config"]["model"]}, {result["groups"]} ranks, {result["rails"]} NICs a node of '
            f'{result["rate"]} Mbit/s')


def at_factor(result, factor=1) -> list[dict]:
    return [row for row in result["results"] if row["compute_factor"] == factor]


def step_of(rows, system) -> float | None:
    return next((row["step_s"] for row in rows if row["system"] == system), None)


def of_system(config, row) -> tuple[str, ...]:
    times = [row["step_s"], min(row["steps_s"]), max(row["steps_s"]), *(row[part] for part in PARTS)]
    step, least, most, *parts = [f"{seconds * 1e3:.1f}" for seconds in times]
    samples = config["ranks"] * config["micro_batch"] * config["accumulation"]
    sizes = [f"{row[key] / 1e6:.2f}" for key in ("intra_bytes", "inter_bytes", "memory_bytes")]
    return (row["system"], step, least, most, f'{samples / row["step_s"]:.1f}', *parts, *sizes)


def of_gains(result, ratios) -> list[tuple[str, ...]]:
    """Of each ratio, how many times as fast where computation takes so many times ZeRO-3's communication."""
    lines = []
    for factor in sorted({row["compute_factor"] for row in result["results"]}):
        rows = at_factor(result, factor)
        zero3 = next((row for row in rows if row["system"] == "zero3"), None)
        if zero3 is None or zero3["predicted_communication_s"] <= 0:
            continue
        where = result["config"]["compute_s"] * factor / zero3["predicted_communication_s"]
        for ours, baseline in ratios:
            fast, slow = step_of(rows, ours), step_of(rows, baseline)
            if fast and slow:
                lines.append((f"{where:.3g}", f"{slow / fast:.2f}", f"{ours} / {baseline}"))
    return lines


def written(folder, result, ratios=()) -> list[str]:
    """Writes the rows of a case; the comments for its pictures."""
    name, title = result["name"], title_of(result)
    save_rows(folder / f"{name}.csv", SYSTEMS, [of_system(result["config"], row) for row in at_factor(result)])
    comments = [picture_comment(f"{name}-time.svg", f"bars of {name}.csv | system | step ms | exposed ms",
                                f"a step of {title}; below: communication that nothing hides"),
                picture_comment(f"{name}-memory.svg", f"points of {name}.csv | system | memory MB | samples/s | ours [A-Z]{{3}}",
                                f"{title}; red: libparo")]
    gains = of_gains(result, ratios) if ratios else []
    if len({where for where, *_ in gains}) > 1:
        save_rows(folder / f"{name}-gains.csv", GAINS, gains)
        comments.append(picture_comment(f"{name}-gains.svg", f'lines of {name}-gains.csv | {" | ".join(GAINS)}',
                                        f"times as fast: {title}"))
    return comments
