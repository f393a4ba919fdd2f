"""How each library is started, in its best honest configuration.

A configuration is a name, the library it stands for, the collectives it can do, and a function
that makes the command line. Commands run on the outside of an emulated cluster and reach its nodes
through `horing run` (one process per rank, torchrun's variables) or `horing node-exec` (which the
MPI launchers use as their remote shell).
"""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from comparison.model import COLLECTIVES, OURS
from measure.report import MIB

OUTSIDE = "10.0.0.254"  # the launcher's address on the cluster's management network


@dataclass(frozen=True)
class Config:
    name: str
    library: str
    collectives: tuple
    # (scenario, collective, [(size, operations)], json file) -> (argv, environment)
    command: Callable
    smallest: int = 0
    largest: int = 64 * MIB
    most_seconds: float = float("inf")  # of one job; what it measured until then counts

    def covers(self, collective, size):
        return collective in self.collectives and self.smallest <= size <= self.largest


@dataclass(frozen=True)
class Setup:
    """Where things lie on this machine."""

    tools: str  # build/tools
    scratch: str  # a directory of this run

    @property
    def horing(self):
        return os.path.join(self.tools, "horing")

    def peer(self, name):
        return os.path.join(self.tools, "bench", "comparison", name)

    def write_remote_shell(self):
        """An ssh stand-in: options, a host name, and a line for its shell."""
        path = os.path.join(self.scratch, "remote-shell")
        with open(path, "w", encoding="utf-8") as file:
            file.write(
                "#!/bin/sh\n"
                'while [ "${1#-}" != "$1" ]; do shift; done\n'
                'node="$1"; shift\n'
                f'exec "{self.horing}" node-exec "$node" "$@"\n'
            )
        os.chmod(path, 0o755)
        return path


def run_on_ranks(setup, scenario, program):
    rails = ["--rails", str(scenario.rails)] if scenario.groups > 1 else []
    return [setup.horing, "run", "-q", "--no-prefix", "-n", scenario.shape, *rails, "--", *program]


def ours(setup, algorithm):
    def command(scenario, collective, runs, json_file):
        sizes = ",".join(f"{size}:{count}" for size, count in runs)
        program = [os.path.join(setup.tools, collective + "_perf"), "--sizes", sizes]
        program += ["--place", "out", "--algorithm", algorithm, "-J", json_file]
        if algorithm != "auto":
            program.append("--no-link-limit")
        return run_on_ranks(setup, scenario, program), {}

    return Config(f"{OURS} {algorithm}", OURS, COLLECTIVES, command)


def peer_arguments(setup, collective, runs, json_file, interfaces=(), store="", algorithm=""):
    """The one argument of a peer's program (peer.hpp): a file with all that it is told."""
    path = os.path.join(setup.scratch, "arguments.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"json_file": json_file, "budget_seconds": 1.5, "interfaces": interfaces, "store": store,
                   "algorithm": algorithm,
                   "runs": [{"collective": collective, "size_bytes": size, "most_iterations": count}
                            for size, count in runs]}, file)
    return path


def rail_subnets(scenario):
    return ",".join(f"10.{rail + 1}.0.0/24" for rail in range(scenario.rails))


def open_mpi(setup, name, parameters, collectives=COLLECTIVES, **limits):
    """parameters: collective -> {MCA parameter: value}."""

    def command(scenario, collective, runs, json_file):
        mca = {
            "pml": "ob1",
            "btl": "tcp,vader,self" if scenario.groups > 1 else "vader,self",
            "mpi_yield_when_idle": "1",
            "plm_rsh_agent": setup.write_remote_shell(),
            "plm_rsh_no_tree_spawn": "1",
            "orte_tmpdir_base": setup.scratch,
        }
        if scenario.groups > 1:
            mca["oob_tcp_if_include"] = "10.0.0.0/24"
            mca["btl_tcp_if_include"] = rail_subnets(scenario)
        mca.update(parameters(collective))
        argv = ["mpirun.openmpi", "--bind-to", "none", "--oversubscribe"]
        argv += ["-n", str(scenario.ranks)]
        for key, value in mca.items():
            argv += ["--mca", key, value]
        hosts = [f"node{n}:{scenario.ranks_per_group}" for n in range(scenario.groups)]
        if scenario.groups > 1:
            argv += ["--host", ",".join(hosts)]
        argv += [setup.peer("mpi_perf_openmpi"), peer_arguments(setup, collective, runs, json_file)]
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return argv, root

    return Config(name, "Open MPI", collectives, command, **limits)


def tuned(algorithms, eager="8192"):
    """The tuned module with one algorithm per collective, and a TCP that starts data at once."""

    def parameters(collective):
        return {
            "btl_tcp_eager_limit": eager,
            "coll_tuned_use_dynamic_rules": "1",
            f"coll_tuned_{without_underscore(collective)}_algorithm": algorithms[collective],
        }

    return parameters


def without_underscore(collective):
    names = {"all_gather": "allgather", "all_reduce": "allreduce"}
    return names.get(collective, collective)


def han(collective):
    parameters = {"btl_tcp_eager_limit": "8192", "coll_han_priority": "100"}
    if collective == "all_reduce":
        parameters.update({"coll_han_allreduce_segsize": str(MIB)})
        parameters.update({"coll_han_allreduce_up_module": "1", "coll_adapt_priority": "10"})
    return parameters


def open_mpi_configs(setup):
    ring = {"all_gather": "4", "reduce_scatter": "3", "all_reduce": "4"}
    doubling = {"all_gather": "3", "reduce_scatter": "2", "all_reduce": "3"}
    no_reduce_scatter = ("all_gather", "all_reduce")
    return [
        open_mpi(setup, "Open MPI ring", tuned(ring), smallest=1024),
        open_mpi(setup, "Open MPI doubling", tuned(doubling), largest=MIB),
        open_mpi(setup, "Open MPI HAN", han, no_reduce_scatter),
        open_mpi(setup, "Open MPI default", lambda _: {}),
    ]


def mpich_config(setup):
    def command(scenario, collective, runs, json_file):
        environment = {
            "UCX_TLS": "tcp,posix,cma,self" if scenario.groups > 1 else "posix,cma,self",
            "UCX_MAX_RNDV_RAILS": "4",
            "UCX_RNDV_THRESH": "16k",
            "MPIR_CVAR_POLLS_BEFORE_YIELD": "1",
        }
        if scenario.groups > 1:
            rails = ",".join(f"rail{rail}" for rail in range(scenario.rails))
            environment["UCX_NET_DEVICES"] = rails
        argv = ["mpiexec.mpich", "-n", str(scenario.ranks)]
        if scenario.groups > 1:
            hosts = [f"node{n}:{scenario.ranks_per_group}" for n in range(scenario.groups)]
            argv += ["-launcher", "ssh", "-launcher-exec", setup.write_remote_shell()]
            argv += ["-localhost", OUTSIDE, "-hosts", ",".join(hosts)]
        for key, value in environment.items():
            argv += ["-genv", key, value]
        argv += [setup.peer("mpi_perf_mpich"), peer_arguments(setup, collective, runs, json_file)]
        return argv, environment

    # It spins: with more ranks than cores an operation takes its turn in scheduler ticks.
    return Config("MPICH", "MPICH", COLLECTIVES, command, most_seconds=60)


def gloo(setup, name, algorithm, contexts, collectives, **limits):
    """contexts: 1, or None for one per rail."""

    def command(scenario, collective, runs, json_file):
        count = contexts or max(scenario.rails, 1)
        rails = [f"rail{rail}" for rail in range(min(count, max(scenario.rails, 1)))]
        interfaces = rails if scenario.groups > 1 else ["lo"]
        store = os.path.join(setup.scratch, "gloo-store")
        shutil.rmtree(store, ignore_errors=True)
        os.mkdir(store)
        arguments = peer_arguments(setup, collective, runs, json_file, interfaces, store, algorithm)
        program = [setup.peer("gloo_perf"), arguments]
        return run_on_ranks(setup, scenario, program), {}

    return Config(name, "Gloo", collectives, command, **limits)


def gloo_configs(setup):
    gather = ("all_gather", "reduce_scatter")
    small = {"largest": 65536}
    return [
        gloo(setup, "Gloo ring, all rails", "ring", None, ("all_gather", "all_reduce"), smallest=65536),
        gloo(setup, "Gloo bcube, all rails", "bcube", None, ("all_reduce",), smallest=65536),
        gloo(setup, "Gloo halving-doubling, all rails", "halving_doubling", None,
             ("reduce_scatter", "all_reduce"), smallest=65536),
        gloo(setup, "Gloo, one rail", "ring", 1, gather, **small),
        gloo(setup, "Gloo halving-doubling, one rail", "halving_doubling", 1, ("all_reduce",), **small),
    ]


PACKAGES = {
    "Open MPI": ("mpi_perf_openmpi", "mpirun.openmpi", "openmpi-bin libopenmpi-dev"),
    "MPICH": ("mpi_perf_mpich", "mpiexec.mpich", "mpich libmpich-dev"),
    "Gloo": ("gloo_perf", None, "libgloo-dev"),
}


def installed_peers(setup):
    """(libraries that can run, [(library, what to do)] for the others)."""
    there, missing = [], []
    for library, (program, launcher, packages) in PACKAGES.items():
        if launcher and shutil.which(launcher) is None:
            missing.append((library, f"not installed: apt-get install {packages}"))
        elif not os.access(setup.peer(program), os.X_OK):
            missing.append(
                (library, f"{program} is not built: apt-get install {packages}, then "
                          "meson setup --reconfigure build && ninja -C build")
            )
        else:
            there.append(library)
    return there, missing


def all_configs(setup, scenario):
    configs = [ours(setup, algorithm) for algorithm in scenario.algorithms]
    if scenario.peers:
        there, _ = installed_peers(setup)
        peers = {
            "Open MPI": open_mpi_configs(setup),
            "MPICH": [mpich_config(setup)],
            "Gloo": gloo_configs(setup),
        }
        for library in there:
            configs += peers[library]
    return configs
