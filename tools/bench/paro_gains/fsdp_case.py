"""PaRO on FSDP2: every strategy beside FSDP2's hybrid sharding, and what the planner says of them: one job, in turns."""
import json
import pathlib
from statistics import median

from measure.report import check, picture_comment, table
from measure.runner import must_run
from paro_gains.torch_case import cluster_of, kept, ratio_line, run_in_turns

NAME = "fsdp"
WHAT = "every strategy of paro.torch on FSDP2 over horing; needs --torch-python"
KEYS = ("run", "seconds", "parameters", "ranks", "torch", "links", "passes", "predicted")
JOB = pathlib.Path(__file__).with_name("fsdp_job.py")
HYBRID, COMPUTE, UPDATE = "hybrid", "compute", "update"
TIE = 0.03  # differences below it have no order
PREDICTED_WITHIN, TAU = 0.2, 0.9


def options_of(request):
    """Keys of paro_plan as options of `paro plan`."""
    return [f"--{key.replace('_', '-')}" + ("" if value is True else f"={value}") for key, value in request.items()]


def predicted(options, result, passes):
    """Seconds of a step by strategy, as the planner has them for the links and the computation that were measured."""
    groups, size = options.groups.split("x")
    compute, update = (median(result["seconds"][f"{passes} {part}"]) for part in (COMPUTE, UPDATE))
    command = [str(pathlib.Path(options.build) / "tools" / "paro"), "plan", "--json", "--nodes", groups, "--ranks-per-node", size,
               "--nics", size, *options_of(result["plan_request"]), "--bytes", "4,4,8", "--accumulation",
               str(passes), "--compute-time", f"{compute}s", "--update-time", f"{update}s", "--model",
               f'params={result["parameters"]},layers={result["layers"]},sequence=1']
    plan = json.loads(must_run(command, 60))
    return {each["name"]: each["time_s"]["step"] for each in plan["strategies"]}


def measure(options):
    """Path of what was measured."""
    rails = options.rails.split(",")[0]
    result = run_in_turns(options, JOB, rails, "--group-size", options.groups.split("x")[1])
    plans = {str(passes): predicted(options, result, passes) for passes in result["passes"]}
    return kept(options, NAME, rails, {"predicted": plans, **result})


def tau_b(first, second):
    """Kendall's, over pairs; a difference below TIE is a tie."""
    signs = []
    names = sorted(first)
    for index, one in enumerate(names):
        for other in names[index + 1:]:
            pair = []
            for values in (first, second):
                gap = values[one] / values[other] - 1
                pair.append(0 if abs(gap) < TIE else 1 if gap > 0 else -1)
            signs.append(pair)
    untied = [sum(sign[index] != 0 for sign in signs) for index in (0, 1)]
    return sum(a * b for a, b in signs) / (untied[0] * untied[1]) ** 0.5 if all(untied) else 0.0


def comparisons(result):
    """A line for each bound."""
    seconds = result["seconds"]
    bounds = (("GGG / IIG, accumulation 4", "4 GGG", "4 IIG", 3.0, True), ("GGG / IIG, accumulation 1", "1 GGG", "1 IIG", 1.2, True),
              ("IIG / III, accumulation 4", "4 IIG", "4 III", 1.02, False),
              ("FSDP2's hybrid sharding / IIG, accumulation 4", f"4 {HYBRID}", "4 IIG", 1.2, True))
    lines = [ratio_line(what, seconds[over], seconds[under], bound, at_least) for what, over, under, bound, at_least in bounds]
    for passes, plan in result["predicted"].items():
        measured = {name: median(seconds[f"{passes} {name}"]) for name in plan if f"{passes} {name}" in seconds}
        off = {name: plan[name] / measured[name] - 1 for name in measured}
        worst = max(off, key=lambda name: abs(off[name]))
        tau = tau_b({name: plan[name] for name in measured}, measured)
        lines.append(f"- {check(abs(off[worst]) <= PREDICTED_WITHIN)} accumulation {passes}: the planner is off by at most "
                     f"{abs(off[worst]) * 100:.0f} % ({worst}; within {PREDICTED_WITHIN * 100:.0f} %)")
        lines.append(f"- {check(tau >= TAU)} accumulation {passes}: its order against the measured one, Kendall's tau-b: {tau:.2f} "
                     f"(at least {TAU}; differences below {TIE * 100:.0f} % are ties)")
    return lines


def rows_of(result):
    """Heads, and the rows."""
    seconds = result["seconds"]
    names = [name for name in result["predicted"]["4"] if f"4 {name}" in seconds]
    rows = [(name, *(f'{median(seconds[f"{passes} {name}"]) * 1e3:.0f}' if kind == "measured"
                     else f'{result["predicted"][str(passes)].get(name, float("nan")) * 1e3:.0f}'
                     for passes in result["passes"] for kind in ("measured", "planner")))
            for name in [*names, HYBRID]]
    rows = [tuple("-" if cell == "nan" else cell for cell in row) for row in rows]
    heads = [f"accumulation {passes}: {kind} ms" for passes in result["passes"] for kind in ("measured", "planner")]
    return ("system", *heads), rows


def report(result):
    run, seconds = result["run"], result["seconds"]
    pictures = [picture_comment(f"{NAME}-{passes}.svg", f"bars of {NAME}.csv | system | accumulation {passes}: measured ms | sorted"
                                f" | ours [A-Z]{{3}}", f"a step, accumulation {passes}, {cluster_of(result)}; red: paro.torch")
                for passes in result["passes"]]
    links = result["links"]
    compute = ", ".join(f'{median(seconds[f"{passes} {COMPUTE}"]) * 1e3:.0f} ms at accumulation {passes}' for passes in result["passes"])
    update = median(value for passes in result["passes"] for value in seconds[f"{passes} {UPDATE}"])
    return "\n".join([
        "# PaRO on FSDP2", "",
        f'Measured {run["date"]} with `tools/bench/gains --cases fsdp --groups {run["groups"]} --rails {run["rails"]} --rail-rate '
        f'{run["rate"]} --rounds {run["rounds"]}`: a GPT of {result["parameters"] / 1e6:.1f} million parameters on CPUs, fp32, '
        f'{result["ranks"]} ranks over horing, {run["rails"]} NICs a node of {run["rate"]} Mbit/s, OMP_NUM_THREADS=1; torch '
        f'{result["torch"]}. All strategies in one job, in turns; medians of a step of the slowest rank. `{HYBRID}` is FSDP2 on two '
        "dimensions, which all-reduces in every micro-batch. Around a rank's own model, without communication, FSDP2's passes take "
        f"{compute}, and AdamW {update * 1e3:.0f} ms. Links, as "
        f'`measure_links` found them: {links["intra_bytes_per_s"] / 1e6:.0f} MB/s of a rank inside groups, '
        f'{links["inter_bytes_per_s"] / 1e6:.1f} MB/s between them; a call takes {links["intra_call_s"] * 1e3:.1f} ms inside, '
        f'{links["inter_call_s"] * 1e3:.1f} ms between, {links["world_call_s"] * 1e3:.1f} ms over all.', "",
        *pictures, *table(*rows_of(result)), "", *comparisons(result), ""])
