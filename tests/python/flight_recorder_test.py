"""horing.flight_recorder: what ranks have recorded, as PyTorch's analyser reads it. HORING_PROGRAM starts the ranks.

Where torch is not there, what it would read is looked at here alone.
"""

import array
import contextlib
import io
import json
import logging
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest

import horing
from horing import flight_recorder

LONG_S = 600


def rank_makes_calls_of_every_kind(comm):
    """Rank 1 leaves out the last one: both leave records when a deadline has passed."""
    size = comm.world_size
    one, all_of_them = array.array("f", [1.0] * 8), array.array("f", [0.0] * 8 * size)
    for _ in range(3):
        comm.all_reduce(one)
    comm.all_gather(one, all_of_them)
    comm.reduce_scatter(all_of_them, one)
    comm.broadcast(one, root=0)
    comm.all_to_all(all_of_them, array.array("f", [0.0] * 8 * size))
    for source in range(size):
        if comm.rank == source:
            comm.send(one, 1 - source)
        else:
            comm.recv(one, source)
    if comm.rank == 0:
        comm.all_reduce(one, timeout=1)
    else:
        comm.recv(one, 0)  # nobody sends it


def main():
    comm = horing.Communicator()
    try:
        rank_makes_calls_of_every_kind(comm)
    except horing.HoringError as error:
        print(error, file=sys.stderr)


def operation(number, call="all_reduce", state="completed", **more):
    ended = number + 2 if state in ("completed", "failed") else 0
    return {"channel": 0, "number": number, "call": call, "dtype": "float32", "count": 6, "state": state,
            "entered_ns": number, "first_piece_ns": number + 1, "ended_ns": ended, **more}


def communicator(operations, ranks=(0, 1), key="a0", name=""):
    return {"key": key, "id": 0, "name": name, "ranks": list(ranks), "operations": operations}


def report(rank, operations, *more, **fields):
    communicators = [communicator(operations, **fields), *more]
    return {"format": 1, "job": "00c0ffee", "rank": rank, "world_size": 2, "communicators": communicators}


class Case(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.records = pathlib.Path(scratch.name) / "records"
        self.out = pathlib.Path(scratch.name) / "out"
        self.records.mkdir()

    def write(self, *reports):
        for each in reports:
            (self.records / f"{each['job']}-rank{each['rank']}.json").write_text(json.dumps(each))

    def convert(self):
        """By rank, what the files have."""
        with contextlib.redirect_stdout(None):
            self.assertEqual(flight_recorder.main([str(self.records), "--out", str(self.out)]), 0)
        found = {}
        for path in self.out.iterdir():
            found[int(path.name.removeprefix("horing_"))] = pickle.loads(path.read_bytes())
        return found

    def analyse(self, *options):
        """The collectives that torch's analyser finds, and what it says."""
        try:
            from torch.distributed.flight_recorder.components import builder, config_manager, loader
        except ImportError as missing:
            self.skipTest(str(missing))
        arguments = config_manager.JobConfig().parse_args([str(self.out), "--prefix", "horing_", *options])
        with self.assertLogs(level=logging.DEBUG) as said:
            logging.getLogger().debug("begin")
            details, version = loader.read_dir(arguments)
            found = builder.build_db(details, arguments, version).collectives
        return found, "\n".join(said.output)


class Converted(Case):
    def test_every_call_has_the_sizes_that_the_analyser_checks(self):
        sizes = {"all_reduce": (6, 6), "all_gather": (6, 12), "reduce_scatter": (12, 6), "broadcast": (6, 6),
                 "all_to_all": (12, 12), "gather": (6, 12), "scatter": (12, 6), "reduce": (6, 6)}
        calls = [operation(1 + number, call) for number, call in enumerate(sizes)]
        self.write(report(0, calls), report(1, calls))
        for dump in self.convert().values():
            self.assertEqual([(each["input_sizes"], each["output_sizes"]) for each in dump["entries"]],
                             [([[sent]], [[got]]) for sent, got in sizes.values()])
            self.assertEqual([each["collective_seq_id"] for each in dump["entries"]], list(range(1, 9)))
            self.assertEqual(dump["pg_config"], {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}})
        found, said = self.analyse()
        self.assertEqual((len(found), all(each.pass_check for each in found)), (8, True), said)

    def test_a_call_that_a_rank_has_not_made_is_found(self):
        self.write(report(0, [operation(1), operation(2, state="running")]), report(1, [operation(1)]))
        self.assertEqual(self.convert()[0]["entries"][1]["state"], "started")
        found, _ = self.analyse()
        self.assertEqual([(each.collective_seq_id, each.missing_ranks) for each in found], [(1, None), (2, {1})])

    def test_a_call_of_another_kind_is_found(self):
        self.write(report(0, [operation(1)]), report(1, [operation(1, "broadcast")]))
        self.convert()
        self.assertIn("COLLECTIVE_TYPE_MISMATCH", str(self.analyse()[0][0].mismatch_collectives[1].type_of_mismatch))

    def test_calls_that_one_rank_has_forgotten_are_left_out(self):
        stuck = operation(2, state="running")
        self.write(report(0, [stuck, *map(operation, range(5, 9))]), report(1, list(map(operation, range(3, 8)))))
        dumps = self.convert()
        self.assertEqual([[each["collective_seq_id"] for each in dumps[rank]["entries"]] for rank in (0, 1)],
                         [[2, 5, 6, 7, 8], [5, 6, 7]])
        self.assertEqual(dumps[0]["pg_status"]["0"],
                         {"last_enqueued_collective": 8, "last_started_collective": 8, "last_completed_collective": 8})

    def test_messages_meet_by_sender_and_receiver(self):
        self.write(report(0, [operation(1, "send", waits_for={"rank": 1}), operation(2, "recv", waits_for={"rank": 1})]),
                   report(1, [operation(1, "recv", waits_for={"rank": 0}), operation(2, "send", waits_for={"rank": 0}),
                              operation(3, "recv", state="running", waits_for={})]))
        self.assertEqual([each["profiling_name"] for each in self.convert()[0]["entries"]],
                         ["nccl:send 0->1", "nccl:recv 0<-1"])
        found, said = self.analyse()
        self.assertEqual((len(found), all(each.pass_check for each in found)), (2, True), said)

    def test_groups_of_a_job_are_named_alike_by_all_their_ranks(self):
        calls = [operation(1)]
        again = communicator(calls, key="c2", name="group 'default_pg'")  # for memory of a device
        part = communicator([operation(1), operation(2, state="running")], key="b1", name="group 'mesh_inter'")
        behind = communicator(calls, key="b1")
        self.write(report(0, calls, part, again, name="group 'default_pg'"), report(1, calls, again, behind))
        dumps = self.convert()
        for dump in dumps.values():
            self.assertEqual(dump["pg_config"], {
                "0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"},
                "b1": {"name": "b1", "desc": "mesh_inter", "ranks": "[0, 1]"},
                "c2": {"name": "c2", "desc": "default_pg", "ranks": "[0, 1]"},
            })
        self.assertEqual({each["process_group"] for each in dumps[0]["entries"]},
                         {("0", "default_pg"), ("b1", "mesh_inter"), ("c2", "default_pg")})
        found, said = self.analyse()
        self.assertEqual([(each.collective_seq_id, each.missing_ranks) for each in found if each.missing_ranks], [(2, {1})], said)

    def test_parts_of_a_job_stay_apart(self):
        split = report(0, [operation(1)], ranks=[0], key="b1", name="a")
        other = report(1, [operation(1)], ranks=[1], key="b2")
        self.write(split, other)
        groups = [set(dump["pg_config"]) for dump in self.convert().values()]
        self.assertEqual(groups[0] & groups[1], set())
        found, said = self.analyse()
        self.assertEqual((len(found), all(each.pass_check for each in found)), (2, True), said)

    def test_records_of_the_nccl_plugin_are_refused_with_what_to_do(self):
        call = {"channel": 0, "number": 1, "call": "all_reduce", "bytes": 8, "state": "running", "entered_ns": 1, "ended_ns": 0,
                "pieces_done": 0, "pieces": 0, "member": 0, "members": 2}
        under_nccl = report(0, [call], ranks=[], name="NCCL")
        under_nccl["communicators"][0]["connections"] = []
        self.write(under_nccl)
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            self.assertEqual(flight_recorder.main([str(self.records), "--out", str(self.out)]), 1)
        self.assertRegex(said.getvalue(), r"00c0ffee-rank0\.json: a record of horing's NCCL plugin.*leave this file out")

    def test_what_is_no_record_is_refused_by_name(self):
        other = report(1, [])
        for content, why in (("{", "no record of horing"), ("[]", "no record of horing"),
                             (json.dumps({**other, "format": 2}), "another version"),
                             (json.dumps({**other, "job": "7"}), "of job 7, others of job 00c0ffee"),
                             (json.dumps({**other, "rank": 0}), "another file of rank 0")):
            self.write(report(0, []))
            bad = self.records / "bad-rank1.json"
            bad.write_text(content)
            with self.subTest(why), self.assertRaisesRegex(flight_recorder.RecordError, f"bad-rank1.json: .*{why}"):
                flight_recorder.read_records(sorted(self.records.iterdir()))
        with contextlib.redirect_stderr(None):
            self.assertEqual(flight_recorder.main([str(self.out), "--out", str(self.out)]), 1)


class Recorded(Case):
    def test_records_of_real_ranks_are_read_by_the_analyser(self):
        environment = {**os.environ, "HORING_RECORD_DIR": str(self.records)}
        done = subprocess.run([os.environ["HORING_PROGRAM"], "run", "-n", "2", sys.executable, __file__],
                              text=True, capture_output=True, timeout=LONG_S, env=environment)
        self.assertEqual(len(list(self.records.iterdir())), 2, done.stdout + done.stderr)
        dumps = self.convert()
        names = [each["profiling_name"] for each in dumps[0]["entries"] if not each["is_p2p"]]
        self.assertEqual(names[-4:], ["nccl:_reduce_scatter_base", "nccl:broadcast", "nccl:all_to_all", "nccl:all_reduce"])
        self.assertEqual(dumps[0]["entries"][-1]["state"], "started")
        found, said = self.analyse()
        last = [each for each in found if each.missing_ranks == {1}]
        self.assertEqual([each.collective_name for each in last if "->" not in each.collective_name],
                         ["nccl:all_reduce"], said)
        passed = [each.collective_name for each in found if each.pass_check]
        for name in ("nccl:all_reduce", "nccl:_all_gather_base", "nccl:_reduce_scatter_base", "nccl:broadcast"):
            self.assertIn(name, passed)


if __name__ == "__main__":
    if "HORING_RANK" in os.environ or "RANK" in os.environ:
        main()
    else:
        unittest.main(verbosity=2)
