"""DDP and FSDP2 of PyTorch over gloo, over horing with flat rings, and over horing as it is: one job, in turns."""
import datetime
import json
import pathlib
from statistics import median

from measure.report import check, picture_comment, save, table
from measure.runner import JobFailed, must_run, say
from measure.statistics import paired_ratio

NAME = "torch"
WHAT = "DDP and FSDP2 over horing and gloo; needs --torch-python"
KEYS = ("run", "seconds", "parameters", "ranks", "torch")
JOB = pathlib.Path(__file__).with_name("torch_job.py")
GLOO, FLAT, OWN = SYSTEMS = ("gloo", "multi_ring", "horing")
WORDS = {GLOO: "gloo, all NICs", FLAT: "horing, flat rings (multi_ring)", OWN: "horing"}
MODES = {"ddp": "DDP", "fsdp": "FSDP2"}
HEADS = ("training", "over", "step ms", "exposed ms")
STEP, EXPOSED, OVER_GLOO = 1.1, 1.2, 1.5  # the least that horing should gain


def lacking(python):
    """The message where this interpreter cannot run the job, or ""."""
    try:
        must_run([python, "-c", "import torch, horing.torch"], 120)
    except (JobFailed, OSError) as failure:
        return f"--torch-python {python} has no torch and horing: {str(failure).strip().splitlines()[-1]}"
    return ""


def run_in_turns(options, job, rails, *arguments):
    """What rank 0 of a job printed that has a cluster of its own."""
    command = [str(pathlib.Path(options.build) / "tools" / "horing"), "run", "--quiet", "--rank0-raw", "-n", options.groups, "--rails",
               rails, "--rail-rate", f"{options.rail_rate}mbit", "--timeout", "3000", "--", options.torch_python, str(job),
               "--rounds", str(options.rounds), *arguments]
    say(f"$ {' '.join(command)}")
    output = must_run(command, environment={"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"})
    return json.loads(output.strip().splitlines()[-1])


def kept(options, name, rails, result):
    """Path of what was measured, with what was run."""
    path = pathlib.Path(options.out) / f"{name}.json"
    save(path, {"run": {"groups": options.groups, "rails": rails, "rate": options.rail_rate, "rounds": options.rounds,
                        "date": str(datetime.date.today())}, **result})
    return path


def ratio_line(what, over, under, bound, at_least=True):
    ratio = paired_ratio(over, under)
    good = ratio.median >= bound if at_least else ratio.median <= bound
    return (f"- {check(good)} {what}: {ratio.median:.2f} ({ratio.interval.low:.2f} to {ratio.interval.high:.2f}; at "
            f"{'least' if at_least else 'most'} {bound})")


def measure(options):
    """Path of what was measured."""
    rails = options.groups.split("x")[1]
    return kept(options, NAME, rails, run_in_turns(options, JOB, rails))


def exposed(result, mode, system):
    """Round by round, seconds of a step that are not computation."""
    return [max(step - alone, 0.0)
            for step, alone in zip(result["seconds"][f"{mode} {system}"], result["seconds"]["none compute"])]


def comparisons(result):
    """A line for each bound."""
    lines = []
    for mode, words in MODES.items():
        steps = {system: result["seconds"][f"{mode} {system}"] for system in SYSTEMS}
        hidden = {system: exposed(result, mode, system) for system in SYSTEMS}
        for what, over, under, least in (
                ("step, flat rings / horing", steps[FLAT], steps[OWN], STEP),
                ("exposed communication, flat rings / horing", hidden[FLAT], hidden[OWN], EXPOSED),
                ("step, gloo / horing", steps[GLOO], steps[OWN], OVER_GLOO)):
            lines.append(ratio_line(f"{words}: {what}", over, under, least))
    return lines


def rows_of(result):
    """Heads, and the rows."""
    return HEADS, [(MODES[mode], WORDS[system], f'{median(result["seconds"][f"{mode} {system}"]) * 1e3:.0f}',
                    f"{median(exposed(result, mode, system)) * 1e3:.0f}") for mode in MODES for system in SYSTEMS]


def cluster_of(result):
    return f'{result["ranks"]} ranks ({result["run"]["groups"]}), {result["run"]["rails"]} NICs a node of {result["run"]["rate"]} Mbit/s'


def report(result):
    run = result["run"]
    pictures = [picture_comment(f"{NAME}-{mode}.svg", f"bars of {NAME}.csv | over | step ms | exposed ms | where training = {words}",
                                f"a step of {words}, {cluster_of(result)}; below: exposed communication")
                for mode, words in MODES.items()]
    return "\n".join([
        "# DDP and FSDP2 over HO-Ring", "",
        f'Measured {run["date"]} with `tools/bench/gains --cases torch --groups {run["groups"]} --rail-rate {run["rate"]} --rounds '
        f'{run["rounds"]}`: a GPT of {result["parameters"] / 1e6:.1f} million parameters on CPUs, fp32, {result["ranks"]} ranks, '
        f'{run["rails"]} NICs a node of {run["rate"]} Mbit/s, OMP_NUM_THREADS=1; torch {result["torch"]}. All systems in one '
        "job, in turns; medians, of the slowest rank. Exposed communication is what a step takes more than the same step "
        f'without communication ({median(result["seconds"]["none compute"]) * 1e3:.0f} ms).', "",
        *pictures, *table(*rows_of(result)), "",
        *comparisons(result), "",
        "What HO-Ring gives is flat rings against horing: one library, one transport, one Python. Against gloo there is more in "
        "the figure: its reduce-scatter is an all-reduce of a copy, which sends twice the bytes (FSDP2), and its rings take "
        "one NIC after the other.", ""])
