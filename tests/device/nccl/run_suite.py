#!/usr/bin/env python3
"""Runs the installed NCCL with our plugin: N processes on one GPU, each a node of its own.

usage: run_suite.py COLLECTIVES PLUGIN [--nodes 2,3,4] [--seconds S] [--brief] [--keep DIR]

COLLECTIVES is the program nccl_collectives, or torch_collectives.py beside this script, PLUGIN
libnccl-net-horing.so. Every result is checked by the ranks, and NCCL's log must show that our network, CollNet and tuner
were used. At most five nodes. Exits with 77 where there is no GPU, with 1 where anything is wrong; then the logs are
kept and named.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
FIRST_WITH_ENV_PLUGINS = 22807

LOADED = "Using network HO-Ring"
ON_RAILS = "via COLLNET/HO-Ring/"
CONNECTED = "Connected Coll"  # CollNet, or Collnet Chains: where it is chosen, with NCCL_RUNTIME_CONNECT
# Every choice that a rule can force, so that what NCCL's own costs say does not matter.
RULES = """# one rank per node: all of it through the rails
all_reduce,*,*,*,*,collnet_chain
all_gather,*,*,*,*,collnet_direct
reduce_scatter,*,*,*,*,collnet_direct
"""


def cases(plugin, rules, version):
    """(name, variables, what each rank's log must hold, what it must not hold); what is chosen, as tuples of words in
    one line, only rank 0 logs"""
    both = {"NCCL_NET_PLUGIN": plugin, "NCCL_TUNER_PLUGIN": plugin, "NCCL_NET_PLUGIN_REF_COUNT": "1"}
    yield ("network", {**both, "NCCL_COLLNET_ENABLE": "0"}, [LOADED], [ON_RAILS])
    yield ("all-reduce", {**both, "NCCL_COLLNET_ENABLE": "1", "NCCL_ALGO": "allreduce:collnetchain"},
           [LOADED, ON_RAILS, CONNECTED, ("AllReduce:", "Algo COLLNET_CHAIN")], [])
    yield ("tuner", {**both, "NCCL_COLLNET_ENABLE": "1", "HORING_TUNING_FILE": rules},
           [LOADED, ON_RAILS, CONNECTED, ("AllReduce:", "Algo COLLNET_CHAIN"),
            ("AllGather:", "Algo COLLNET_DIRECT"), ("ReduceScatter:", "Algo COLLNET_DIRECT")], [])
    if version >= FIRST_WITH_ENV_PLUGINS:
        yield ("env plugin alone", {"NCCL_ENV_PLUGIN": plugin}, [LOADED, ON_RAILS], [])


def environment(rank, variables, log):
    mine = {name: value for name, value in os.environ.items()
            if not name.startswith(("NCCL_", "HORING_"))}
    mine.update({
        "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0],
        "CUDA_MODULE_LOADING": "EAGER",
        "NCCL_HOSTID": f"node{rank}",
        "NCCL_SOCKET_IFNAME": "lo",
        "HORING_SOCKET_IFNAME": "=lo",
        "NCCL_MNNVL_ENABLE": "0",
        "NCCL_NVLS_ENABLE": "0",
        # The processes take turns on one GPU.
        "NCCL_MAX_CTAS": "4",
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,NET,GRAPH,TUNING,COLL,ENV",
        "NCCL_DEBUG_FILE": str(log),
    })
    mine.update(variables)
    return mine


def program(collectives):
    return [sys.executable, collectives] if collectives.endswith(".py") else [collectives]


def holds(text, wanted):
    words = wanted if isinstance(wanted, tuple) else (wanted,)
    return any(all(word in line for word in words) for line in text.splitlines())


def run_case(arguments, folder, nodes, variables, wanted, unwanted):
    """What is wrong, as lines."""
    ranks = []
    for rank in range(nodes):
        output = open(folder / f"rank{rank}.out", "w", encoding="utf-8")
        command = [*program(arguments.collectives), str(rank), str(nodes), str(folder / "id"),
                   str(arguments.seconds), "brief" if arguments.brief else "thorough"]
        log = folder / f"rank{rank}.log"
        ranks.append((subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT,
                                       env=environment(rank, variables, log)), output))
    wrong = []
    for rank, (process, output) in enumerate(ranks):
        status = process.wait()  # its own alarm ends it
        output.close()
        said = (folder / f"rank{rank}.out").read_text(errors="replace").strip().splitlines()
        if status != 0:
            why = "no end in time" if status == -14 else f"status {status}"
            wrong.append(f"rank {rank}: {why}: " + (said[-1] if said else "it said nothing"))
        log = folder / f"rank{rank}.log"
        text = log.read_text(errors="replace") if log.exists() else ""
        wrong += [f"rank {rank}: its log lacks {one}" for one in wanted
                  if not holds(text, one) and (rank == 0 or isinstance(one, str))]
        wrong += [f"rank {rank}: its log has {one}" for one in unwanted if holds(text, one)]
    return wrong


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1])
    parser.add_argument("collectives")
    parser.add_argument("plugin")
    parser.add_argument("--nodes", default="2,3")
    parser.add_argument("--seconds", type=int, default=240)
    parser.add_argument("--brief", action="store_true")
    parser.add_argument("--keep")
    arguments = parser.parse_args()
    probe = subprocess.run([*program(arguments.collectives), "--probe"], capture_output=True, text=True)
    if probe.returncode != 0:
        print(probe.stdout.strip() or probe.stderr.strip())
        return probe.returncode
    version = int(probe.stdout)
    plugin = str(pathlib.Path(arguments.plugin).resolve())
    folder = pathlib.Path(arguments.keep or tempfile.mkdtemp(prefix="horing-nccl-"))
    folder.mkdir(parents=True, exist_ok=True)
    rules = folder / "rules.csv"
    rules.write_text(RULES)
    failed = 0
    for nodes in [int(word) for word in arguments.nodes.split(",")]:
        for name, variables, wanted, unwanted in cases(plugin, str(rules), version):
            slot = folder / f"{nodes}-{name.replace(' ', '-')}"
            shutil.rmtree(slot, ignore_errors=True)
            slot.mkdir()
            wrong = run_case(arguments, slot, nodes, variables, wanted, unwanted)
            failed += bool(wrong)
            print(f"NCCL {version}, {nodes} nodes, {name}: " + ("FAILED" if wrong else "ok"), flush=True)
            for line in wrong:
                print("  " + line)
    if failed:
        print(f"{failed} cases failed; NCCL's logs are in {folder}")
    elif not arguments.keep:
        shutil.rmtree(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
