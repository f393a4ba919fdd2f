"""python -m horing.flight_recorder: records of horing for PyTorch's flight recorder analyser.

HORING_RECORD_DIR has one JSON file per rank. Of each this makes one that torchfrtrace (torch 2.9 and later;
python -m torch.distributed.flight_recorder.fr_trace) reads: FOLDER/horing_RANK. torch itself is not needed.

The analyser knows process groups in which each collective has a number. Calls of a communicator have one in their
channel, and messages one between two ranks and in one direction: each of these is a group of its own here.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import pickle
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

PREFIX = "horing_"
VERSION = "2.10"  # of the analyser's format
# What horing.torch calls a group: the text between is torch's own.
_TORCH_NAME = re.compile(r"^group '(.*)'$")
STATES = {"queued": "scheduled", "running": "started", "completed": "completed", "failed": "started"}
# What the analyser calls a collective, and how many times `count` elements go in and come out per rank of the group.
CALLS: dict[str, tuple[str, bool, bool]] = {
    "all_reduce": ("all_reduce", False, False),
    "broadcast": ("broadcast", False, False),
    "reduce": ("reduce", False, False),
    "all_gather": ("_all_gather_base", False, True),
    "gather": ("gather", False, True),
    "reduce_scatter": ("_reduce_scatter_base", True, False),
    "scatter": ("scatter", True, False),
    "all_to_all": ("all_to_all", True, True),
    "all_to_all_counts": ("all_to_all", False, False),
}


class RecordError(ValueError):
    """A file is no record of horing, or does not belong to the others."""


class Group(NamedTuple):
    """A process group as the analyser has one."""

    name: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """An operation in its group."""

    group: Group
    number: int
    name: str
    inputs: list[int]
    outputs: list[int]
    operation: dict[str, Any]

    @property
    def is_message(self) -> bool:
        """It is no collective."""
        return self.operation["call"] in ("send", "recv")

    @property
    def is_over(self) -> bool:
        """It has ended, well or not."""
        return bool(self.operation["ended_ns"])


def read_records(files: Iterable[pathlib.Path]) -> dict[int, dict[str, Any]]:
    """Reads what ranks have written.

    Args:
        files: The records of one job, one of each rank.

    Returns:
        Their reports by rank.

    Raises:
        RecordError: they are not that.
    """
    reports: dict[int, dict[str, Any]] = {}
    for file in files:
        try:
            report = json.loads(file.read_bytes())
            known = report["format"] == 1 and isinstance(report["communicators"], list)
            rank = int(report["rank"])
        except (ValueError, KeyError, TypeError) as error:
            raise RecordError(f"{file}: no record of horing ({error!r})") from error
        if not known:
            raise RecordError(f"{file}: a record of another version of horing")
        if any("connections" in each for each in report["communicators"]):
            raise RecordError(
                f"{file}: a record of horing's NCCL plugin, which has connections and no numbered calls; "
                "use NCCL's own flight recorder (TORCH_NCCL_TRACE_BUFFER_SIZE) and leave this file out"
            )
        first = next(iter(reports.values()), report)
        if report["job"] != first["job"]:
            raise RecordError(f"{file}: of job {report['job']}, others of job {first['job']}: name the files of one")
        if rank in reports:
            raise RecordError(f"{file}: there is another file of rank {rank}")
        reports[rank] = report
    if not reports:
        raise RecordError("there is no file *-rank*.json")
    return reports


def _group_of(communicator: dict[str, Any], world: str, channel: int = 0) -> Group:
    """All members of a communicator have one key for it; `world` is that of the whole job's."""
    key = communicator["key"]
    name = "0" if key == world else key
    return Group(name if channel == 0 else f"{name}.channel{channel}", tuple(communicator["ranks"]))


def _key_of_world(reports: dict[int, dict[str, Any]]) -> str:
    """The key of the whole job's communicator, the first of these where there are several; "": there is none."""
    for _, report in sorted(reports.items()):
        for communicator in report["communicators"]:
            if sorted(communicator["ranks"]) == list(range(report["world_size"])):
                return str(communicator["key"])
    return ""


def _collective(communicator: dict[str, Any], world: str, operation: dict[str, Any]) -> Call:
    """An operation of all ranks of the communicator."""
    group = _group_of(communicator, world, operation["channel"])
    name, many_in, many_out = CALLS[operation["call"]]
    count, size = operation["count"], len(group.ranks)
    inputs, outputs = (count * (size if many else 1) for many in (many_in, many_out))
    return Call(group, operation["number"], f"nccl:{name}", [inputs], [outputs], operation)


def _messages(rank: int, communicator: dict[str, Any], world: str) -> Iterator[Call]:
    """A message is numbered by both ends, which only agree where all since the first are there."""
    counts: Counter[tuple[int, int]] = Counter()
    found = [each for each in communicator["operations"] if each["call"] in ("send", "recv")]
    if not found or found[0]["number"] != 1:
        return
    for operation in found:
        peer = operation.get("waits_for", {}).get("rank")
        if peer is None or peer == rank:
            continue  # from any rank, and none has come
        sends = operation["call"] == "send"
        source, target = (rank, peer) if sends else (peer, rank)
        counts[source, target] += 1
        pair = tuple(sorted((source, target)))
        group = Group(f"{_group_of(communicator, world).name}.{source}to{target}", pair)
        ends = f"{pair.index(source)}->{pair.index(target)}" if sends else f"{pair.index(target)}<-{pair.index(source)}"
        size = [operation["count"]]
        yield Call(group, counts[source, target], f"nccl:{operation['call']} {ends}", size, size, operation)


def _calls_of(rank: int, report: dict[str, Any], world: str) -> Iterator[Call]:
    """All that a rank has recorded and that the analyser has a name for."""
    for communicator in report["communicators"]:
        for operation in communicator["operations"]:
            if operation["call"] in CALLS:
                yield _collective(communicator, world, operation)
        yield from _messages(rank, communicator, world)


def _kept_by_all(calls: dict[int, list[Call]]) -> dict[int, list[Call]]:
    """Without those that are over and that another rank has forgotten already."""
    begins: defaultdict[Group, int] = defaultdict(int)
    for each in calls.values():
        numbers: defaultdict[Group, set[int]] = defaultdict(set)
        for call in each:
            numbers[call.group].add(call.number)
        for group, there in numbers.items():
            begin = max(there)
            while begin - 1 in there:
                begin -= 1
            begins[group] = max(begins[group], begin)
    return {
        rank: [call for call in each if not call.is_over or call.number >= begins[call.group]]
        for rank, each in calls.items()
    }


def _entry(number: int, call: Call, description: str) -> dict[str, Any]:
    """A call as the analyser has it, the number-th of its rank."""
    operation = call.operation
    started, ended = operation["first_piece_ns"] or None, operation["ended_ns"] or None
    completed = operation["state"] == "completed"
    return {
        "record_id": number,
        "pg_id": 0,
        "process_group": (call.group.name, description),
        "collective_seq_id": call.number,
        "p2p_seq_id": call.number if call.is_message else 0,
        "op_id": number,
        "profiling_name": call.name,
        "frames": [],
        "time_created_ns": operation["entered_ns"],
        "time_discovered_started_ns": started,
        "time_discovered_completed_ns": ended if completed else None,
        "duration_ms": (ended - started) / 1e6 if completed and started and ended else None,
        "input_sizes": [call.inputs],
        "output_sizes": [call.outputs],
        "input_dtypes": [operation["dtype"]],
        "output_dtypes": [operation["dtype"]],
        "state": STATES[operation["state"]],
        "is_p2p": call.is_message,
        "retired": completed,
        "timeout_ms": 0,
    }


def _status_of(calls: list[Call]) -> dict[str, int]:
    """How far a rank has come in a group; -1: not so far."""

    def last(wanted: set[str]) -> int:
        return max((call.number for call in calls if call.operation["state"] in wanted), default=-1)

    return {
        "last_enqueued_collective": last(set(STATES)),
        "last_started_collective": last({"running", "completed"}),
        "last_completed_collective": last({"completed"}),
    }


def convert(reports: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """What the analyser is to read.

    Args:
        reports: Those of read_records().

    Returns:
        By rank, what its file is to hold once it is pickled.
    """
    world = _key_of_world(reports)
    calls = _kept_by_all({rank: list(_calls_of(rank, report, world)) for rank, report in reports.items()})
    names: dict[Group, str] = {}  # every rank may give a communicator another one
    for _, report in sorted(reports.items()):
        for communicator in report["communicators"]:
            group = _group_of(communicator, world)
            names[group] = names.get(group) or _TORCH_NAME.sub(r"\1", communicator["name"])

    def description(group: Group) -> str:
        plain = Group(group.name.split(".channel")[0], group.ranks)
        return names.get(plain) or ("default_pg" if plain.name == "0" else "undefined")

    dumps = {}
    for rank, each in calls.items():
        each.sort(key=lambda call: (call.operation["entered_ns"], call.group, call.number))
        groups = {call.group for call in each}
        groups |= {_group_of(communicator, world) for communicator in reports[rank]["communicators"]}
        by_group = {group: [call for call in each if call.group == group] for group in groups}
        dumps[rank] = {
            "version": VERSION,
            "entries": [_entry(number, call, description(call.group)) for number, call in enumerate(each)],
            "pg_config": {
                group.name: {"name": group.name, "desc": description(group), "ranks": str(list(group.ranks))}
                for group in groups
            },
            "pg_status": {group.name: _status_of(of_group) for group, of_group in by_group.items()},
        }
    return dumps


def _files_in(paths: Iterable[pathlib.Path]) -> Iterator[pathlib.Path]:
    """Folders stand for the records in them."""
    for path in paths:
        if path.is_dir():
            yield from sorted(path.glob("*-rank*.json"))
        else:
            yield path


def main(arguments: list[str] | None = None) -> int:
    """Writes the files.

    Args:
        arguments: Of the command; None: those of the program.

    Returns:
        The status to exit with.
    """
    parser = argparse.ArgumentParser(prog="python -m horing.flight_recorder", description=__doc__.partition(":")[2])
    parser.add_argument("records", nargs="+", type=pathlib.Path, metavar="RECORDS", help="files of one job, or folders")
    parser.add_argument("--out", required=True, type=pathlib.Path, metavar="FOLDER", help="made where it is not there")
    chosen = parser.parse_args(arguments)
    try:
        reports = read_records(_files_in(chosen.records))
        dumps = convert(reports)
        chosen.out.mkdir(parents=True, exist_ok=True)
        for rank, dump in dumps.items():
            (chosen.out / f"{PREFIX}{rank}").write_bytes(pickle.dumps(dump))
    except (RecordError, OSError) as error:
        print(f"horing.flight_recorder: {error}", file=sys.stderr)
        return 1
    world = next(iter(reports.values()))["world_size"]
    missing = sorted(set(range(world)) - set(reports))
    option = ""
    if missing:
        option = " --allow-incomplete-ranks"
        print(f"no record of rank {', '.join(map(str, missing))}: look there first")
    print(f"torchfrtrace --prefix {PREFIX}{option} {chosen.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
