#!/usr/bin/env python3
"""`horing status` and the recorder's files: jobs that hang, that fail and that are killed, and hostile neighbours.

usage: status_test.py HORING ALL_REDUCE_PERF LIBHORING PLUGIN_PERF PLUGIN

LIBHORING is what a job in Python loads; empty: there is none.
"""
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True

from status_case import ENDLESS, HORING, MOST, PERF, Case, until  # noqa: E402

LIBRARY, PLUGIN_PERF, PLUGIN = sys.argv[3:6]
HERE = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text()[:8]  # as sockets are called
# What NCCL does with the plugin, without NCCL: processes that only move data over it.
UNDER_NCCL = [PLUGIN_PERF, "--sizes", "4M:100000", "--rounds", "100", "--collectives", "all_reduce", "--no-link-limit"]
PYTHON_JOB = """
import time
import horing
world = horing.Communicator()
world.barrier()
print("ready", flush=True)
if world.rank == 1:
    time.sleep(600)
world.barrier()
"""
# Rank 3 comes to every call long after the others.
LATE_JOB = """
import time
import horing
world = horing.Communicator()
while True:
    if world.rank == 3:
        time.sleep(0.05)
    world.barrier()
"""


class Hang(Case):
    def test_a_stopped_rank_is_named_and_all_others_wait_for_it(self):
        self.start()
        self.stop(self.moving(), 2)
        view = self.hanging(2)
        self.assertEqual(view["waited_for"], [2])
        self.assertIsNone(view["ranks"][2]["report"])
        for rank in (0, 1, 3):
            (world,) = view["ranks"][rank]["report"]["communicators"]
            (under_way,) = [each for each in world["operations"] if each["ended_ns"] == 0]
            self.assertEqual((under_way["call"], under_way["bytes"], under_way["state"]), ("all_reduce", 65536, "running"))
            self.assertLess(under_way["pieces_done"], under_way["pieces"])
            self.assertNotEqual(under_way["waits_for"]["rank"], rank)
            self.assertLessEqual(under_way["waits_for"]["since_ns"], view["ranks"][rank]["report"]["time_ns"])
        table = self.status().stdout
        self.assertRegex(table, r"(?m)^job [0-9a-f]{16}: 3 of 4 ranks answer; .*all_reduce_perf")
        self.assertRegex(table, r"(?m)^ +0 +\d+ +\S+ +waits +all_reduce #\d+ of 64 KiB, \d+ of \d+ pieces ")
        self.assertRegex(table, r"(?m)^ +2 +\d+ +\S+ +stopped$")
        self.assertRegex(table, r"(?m)^Ranks wait in the end for rank 2 \(\S+\): stopped$")
        self.assertEqual(table.count(" 127."), 4, table)  # two rails of each node

    def test_a_job_goes_on_after_it_was_asked_while_it_hung(self):
        self.start()
        before = self.moving()
        self.stop(before, 1)
        hung = self.hanging(1)
        os.kill(hung["ranks"][1]["pid"], signal.SIGCONT)
        completed = hung["ranks"][0]["report"]["communicators"][0]["completed"]
        until("more calls", lambda: self.moving()["ranks"][0]["report"]["communicators"][0]["completed"] > completed)

    @unittest.skipUnless(LIBRARY, "a sanitizer's runtime cannot be loaded late")
    def test_a_job_in_python_is_seen_without_its_help(self):
        self.start(sys.executable, "-c", PYTHON_JOB, ranks="1x2", HORING_LIBRARY=LIBRARY)
        def look():
            view = self.view()
            states = [rank["state"] for rank in view["ranks"]] if view else []
            return view if states == ["waits", "idle"] and view["waited_for"] else None
        try:
            view = until("rank 0 in the second barrier", look)
        except AssertionError as late:
            raise AssertionError(self.status().stdout + (self.scratch / "job.log").read_text()) from late
        self.assertEqual(view["waited_for"], [1])
        self.assertRegex(self.status().stdout, r"(?m)^Ranks wait in the end for rank 1 \(\S+\): idle, since ")


class Elsewhere(Case):
    """Two nodes whose ranks have sockets in folders of their own, as on two hosts."""

    # The second node's ranks, 2 and 3, are not found from the first.
    APART = 'test "$RANK" -lt 2 || export HORING_STATUS_DIR="$0"; exec "$@"'

    def start_apart(self, *command, **variables):
        self.there = self.scratch / "there"
        return self.start("sh", "-c", self.APART, str(self.there), *(command or ENDLESS), **variables)

    def reports(self):
        """As all of them are this machine's processes."""
        found = super().reports()
        return found if len(found) == 4 else found + [{"pid": pid} for pid in self.pids]

    def seen(self, states, folder=None):
        """Once the ranks, by number, are in one of these states."""
        def look():
            variables = {"HORING_STATUS_DIR": str(folder)} if folder else {}
            answer = self.status("--json", **variables)
            view = json.loads(answer.stdout) if answer.returncode == 0 else {"ranks": []}
            found = [rank["state"] for rank in view["ranks"]]
            matches = len(found) == len(states) and all(state in wanted for state, wanted in zip(found, states))
            return view if matches else None
        try:
            return until(f"states {states}", look)
        except AssertionError as late:
            raise AssertionError(f"{late}:\n{self.status().stdout}") from late

    def all_seen(self, folder=None):
        alive = ("moves", "waits", "idle")
        view = self.seen([alive] * 4, folder)
        self.pids = [rank["pid"] for rank in view["ranks"]]
        return view

    def setUp(self):
        super().setUp()
        self.pids = []

    def test_ranks_of_the_other_host_are_shown_with_all_that_they_know(self):
        self.start_apart()
        view = self.all_seen()
        self.assertEqual([rank["elsewhere"] for rank in view["ranks"]], [False, False, True, True])
        self.assertEqual(len({rank["pid"] for rank in view["ranks"]}), 4)
        for rank in view["ranks"]:
            self.assertEqual(rank["report"]["rank"], rank["rank"])
            self.assertEqual(rank["host"], rank["report"]["host"])
        table = self.status().stdout
        self.assertRegex(table, r"(?m)^job [0-9a-f]{16}: 4 of 4 ranks answer; .*all_reduce_perf")
        self.assertEqual(table.count(" 127."), 4, table)  # two rails of each node
        # And from there; but rank 0's host has the coordinator that the question goes through.
        there = self.all_seen(self.there)
        self.assertEqual([rank["elsewhere"] for rank in there["ranks"]], [True, True, False, False])

    def test_a_stopped_rank_of_the_other_host_is_named_and_waited_for(self):
        self.start_apart()
        view = self.all_seen()
        self.stop(view, 2)
        hung = self.seen([("waits",), ("waits",), ("does not answer",), ("waits",)])
        self.assertEqual(hung["waited_for"], [2])
        self.assertIsNone(hung["ranks"][2]["report"])
        self.assertRegex(self.status().stdout, r"(?m)^Ranks wait in the end for rank 2 \(\S+\): does not answer")
        # What it was asked meanwhile does not come as the answer of a later question.
        for _ in range(3):
            self.seen([("waits",), ("waits",), ("does not answer",), ("waits",)])
        os.kill(self.pids[2], signal.SIGCONT)
        completed = hung["ranks"][3]["report"]["communicators"][0]["completed"]
        until("more calls", lambda: self.all_seen()["ranks"][2]["report"]["communicators"][0]["completed"] > completed)

    def test_a_stopped_rank_0_leaves_the_other_host_missing(self):
        self.start_apart()
        self.stop(self.all_seen(), 0)
        self.seen([("stopped",), ("waits",), ("does not answer",), ("does not answer",)])
        self.assertRegex(self.status().stdout, r"(?m)^ +3 +\S+ +does not answer +on another host: look there$")

    def test_questions_at_the_same_time_are_all_answered(self):
        self.start_apart()
        self.all_seen()
        def look():
            asking = [subprocess.Popen([HORING, "status", "--json"], env=self.environment(), stdout=subprocess.PIPE, text=True)
                      for _ in range(8)]
            views = [json.loads(each.communicate(timeout=MOST)[0]) for each in asking]
            for view in views:
                self.assertEqual([rank["rank"] for rank in view["ranks"]], [0, 1, 2, 3])
            return all(view["ranks"][rank]["report"] for view in views for rank in (2, 3))
        until("ranks of the other host in all answers", look)

    def test_each_host_tells_prometheus_of_its_ranks_and_rank_0_s_of_all(self):
        self.start_apart()
        self.all_seen()
        def ranks(metric, folder):
            text = self.status("--prometheus", HORING_STATUS_DIR=str(folder)).stdout
            return {line.split('rank="')[1][0] for line in text.splitlines() if line.startswith(metric + "{")}
        self.assertEqual(ranks("horing_rank_up", self.folder), set("0123"))
        self.assertEqual(ranks("horing_rank_waited_for", self.folder), set("0123"))
        self.assertEqual(ranks("horing_operations_completed_total", self.folder), set("01"))
        # Both are one host by name: who has no socket of the folder seems missing, as no other host's would.
        self.assertEqual(ranks("horing_rank_waiting_seconds", self.there), set("23"))
        self.assertEqual(ranks("horing_rank_waited_for", self.there), set())
        self.assertEqual(ranks("horing_operations_completed_total", self.there), set("23"))

    def test_old_questions_are_answered_for_the_rank_alone(self):
        self.start_apart()
        view = self.all_seen()
        for question, expected in ((b"horing 1 status\n", 1), (b"horing 1 others\n", 3)):
            client = socket.socket(socket.AF_UNIX)
            self.addCleanup(client.close)
            client.settimeout(MOST)
            client.connect(str(self.folder / f"{view['job']}-0-{view['ranks'][0]['pid']}-{HERE}"))
            client.sendall(question)
            answer = b""
            while part := client.recv(65536):
                answer += part
            lines = answer.decode().splitlines()
            self.assertEqual(len(lines), expected)
            if expected == 1:
                self.assertEqual(json.loads(lines[0])["rank"], 0)
            else:
                self.assertEqual([line.split(" ")[0] for line in lines], ["1", "2", "3"])

    @unittest.skipUnless(LIBRARY, "a sanitizer's runtime cannot be loaded late")
    def test_the_rank_that_enters_its_calls_last_is_named(self):
        self.start_apart(sys.executable, "-c", LATE_JOB, HORING_LIBRARY=LIBRARY)
        def look():
            view = self.view()
            late = view["late"] if view else []
            return view if late and late[0]["tells"] and late[0]["last"] == 3 else None
        view = until("a straggler", look)
        (late,) = view["late"]
        self.assertEqual([each["rank"] for each in late["ranks"]], [0, 1, 2, 3])
        self.assertRegex(self.status().stdout, r"(?m)^Rank 3 \(\S+\) enters its calls last: \d.* after the middle one")
        self.assertRegex(self.status("--prometheus").stdout, r'(?m)^horing_rank_late_seconds{.*rank="3",host="\S+",.*} 0\.')


class Rails(Case):
    def test_rails_of_links_that_fail_over_say_what_they_carry(self):
        self.start(HORING_FAILOVER="1")
        def look():
            rails = [rail for rank in self.moving()["ranks"] for rail in rank["report"]["communicators"][0]["rails"]]
            return rails if any("links" in rail for rail in rails) else None
        rails = until("links of rails", look)
        self.assertEqual({rail["failovers"] for rail in rails}, {0})
        self.assertEqual({rail["own_share"] for rail in rails if "links" in rail}, {1})
        self.assertRegex(self.status().stdout, r"(?m)^host +rail at +interface +Mbit/s +failovers +carries$")
        self.assertRegex(self.status("--prometheus").stdout, r"(?m)^horing_rail_failovers_total{.*} 0$")
        self.assertRegex(self.status("--prometheus").stdout, r"(?m)^horing_rail_own_share{.*} 1$")


class UnderNccl(Case):
    """Two nodes of one rank each: what is between them is the plugin's alone."""

    def moving_over(self, paths, **variables):
        self.start(*UNDER_NCCL, "--paths", paths, ranks="2x1", NCCL_NET_PLUGIN=PLUGIN, **variables)
        # Its check ends with a barrier of its own, at which no connection waits.
        return self.moving(ranks=2, calls_of_start=1000)

    def connections(self, view, rank):
        return [each for communicator in view["ranks"][rank]["report"]["communicators"] for each in communicator["connections"]]

    def check_hang(self, view):
        self.assertEqual(view["waited_for"], [1])
        waiting = [each["waits_for"] for each in self.connections(view, 0) if each["pending"] > 0]
        self.assertNotEqual(waiting, [])
        for wait in waiting:
            self.assertEqual(wait["rank"], 1)
            self.assertIn("RANK 1", wait["peer"])
            self.assertGreater(wait["since_ns"], 0)
            self.assertLessEqual(wait["since_ns"], view["ranks"][0]["report"]["time_ns"])
        self.assertRegex(self.status().stdout, r"(?m)^Ranks wait in the end for rank 1 \(.*\): stopped$")

    def check_connections(self, failover):
        self.stop(self.moving_over("ring", HORING_FAILOVER=failover), 1)
        view = self.hanging(1)
        self.check_hang(view)
        self.assertEqual({each["collnet"] for each in self.connections(view, 0)}, {False})
        self.assertEqual({each["failovers"] for each in self.connections(view, 0)}, {0})
        rails = [rail for each in view["ranks"][0]["report"]["communicators"] for rail in each["rails"]]
        self.assertNotIn("", {rail["address"] for rail in rails})
        self.assertEqual({rail["own_share"] for rail in rails if "links" in rail}, {1} if failover == "1" else set())
        self.assertRegex(self.status().stdout, r"(?m)^ +0 +\S+ +\d+ +\d.* for \d.* \(.*RANK 1")

    def test_connections_that_wait_name_the_stopped_peer(self):
        self.check_connections(failover="0")

    def test_connections_that_fail_over_name_the_stopped_peer(self):
        self.check_connections(failover="1")

    def test_an_all_reduce_of_collnet_names_the_stopped_member(self):
        self.stop(self.moving_over("collnet"), 1)
        view = self.hanging(1)
        self.check_hang(view)
        (communicator,) = [each for each in view["ranks"][0]["report"]["communicators"] if each["operations"]]
        under_way = communicator["operations"][0]
        self.assertEqual((under_way["call"], under_way["member"], under_way["members"]), ("all_reduce", 0, 2))
        self.assertEqual(under_way["waits_for"]["rank"], 1)
        self.assertGreater(under_way["bytes"], 0)
        self.assertRegex(self.status().stdout, r"(?m)^ +0 +\d+ +\S.* waits +all_reduce #\d+ of .* in NCCL .* rank 1, ")

    def test_a_job_that_ends_leaves_no_socket(self):
        job = self.start(PLUGIN_PERF, "--sizes", "64K:2", "--rounds", "1", "--no-link-limit", ranks="2x1", NCCL_NET_PLUGIN=PLUGIN)
        self.assertEqual(job.wait(MOST), 0)
        self.assertEqual(list(self.folder.iterdir()), [])


class Watch(Case):
    """`horing status --watch`."""

    def watching(self, output, *more):
        watching = subprocess.Popen([HORING, "status", "--watch", "0.2", *more], env=self.environment(), stdout=output,
                                    stderr=subprocess.PIPE, text=True)
        for pipe in filter(None, (watching.stdout, watching.stderr)):
            self.addCleanup(pipe.close)
        self.addCleanup(watching.wait)
        self.addCleanup(watching.kill)
        return watching

    def test_without_a_terminal_blocks_come_one_after_the_other(self):
        view = self.start() and self.moving()
        watching = self.watching(subprocess.PIPE)
        heads = []
        for line in watching.stdout:
            if line.startswith("job "):
                heads.append(line)
            if len(heads) == 3:
                break
        self.assertEqual([line.split(":")[0] for line in heads], [f"job {view['job']}"] * 3)
        watching.send_signal(signal.SIGINT)
        rest = watching.stdout.read()
        self.assertEqual((watching.wait(MOST), watching.stderr.read()), (0, ""))
        self.assertNotIn("\x1b", rest)
        self.assertRegex(rest, r"(?m)^host +rail at +interface +Mbit/s +sent +received")

    def test_on_a_terminal_the_table_is_drawn_again_in_its_place(self):
        self.start() and self.moving()
        terminal, inside = os.openpty()
        watching = self.watching(inside)
        os.close(inside)
        said = b""
        while said.count(b"\x1b[H\x1b[2J") < 3:
            said += os.read(terminal, 65536)
        watching.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # what Linux says once nobody has the other end
            while part := os.read(terminal, 65536):
                said += part
        os.close(terminal)
        self.assertEqual(watching.wait(MOST), 0)
        self.assertTrue(said.startswith(b"\x1b[?7l"), said)
        self.assertTrue(said.endswith(b"\x1b[?7h"), said)

    def test_it_ends_with_the_job(self):
        job = self.start()
        view = self.moving()
        watching = self.watching(subprocess.PIPE, view["job"])
        self.assertIn(view["job"], watching.stdout.readline())
        job.terminate()
        _, why = watching.communicate(timeout=MOST)
        self.assertEqual((watching.returncode, why), (0, f"horing status: job {view['job']} has ended on this host\n"))

    def test_what_it_cannot_do_at_once_is_refused(self):
        for more in (["--json"], ["--record"], ["--prometheus"]):
            answer = self.status("--watch", "1", *more)
            self.assertNotEqual(answer.returncode, 0)
            self.assertRegex(answer.stderr, "excludes --watch|--watch excludes")
        self.assertNotEqual(self.status("--watch", "0").returncode, 0)


class Prometheus(Case):
    def test_metrics_of_running_ranks_are_read_by_its_own_parser(self):
        self.assertRegex(self.status("--prometheus").stdout, r"(?m)^horing_jobs 0$")
        self.start()
        self.stop(self.moving(), 2)
        view = self.hanging(2)
        text = self.status("--prometheus").stdout
        for rank in range(4):
            self.assertIn(f'horing_rank_up{{job="{view["job"]}",rank="{rank}",host="', text)
        self.assertRegex(text, r'(?m)^horing_rank_waited_for{job="\w+",rank="2",host="\S+"} 1$')
        self.assertRegex(text, r'(?m)^horing_rank_waiting_seconds{job="\w+",rank="0",host="\S+"} [0-9.e-]+$')
        try:
            from prometheus_client.parser import text_string_to_metric_families
        except ImportError:
            self.skipTest("prometheus_client is not there")
        families = {family.name: family for family in text_string_to_metric_families(text)}
        self.assertEqual(families["horing_operations_completed"].type, "counter")
        self.assertEqual({sample.labels["rank"] for sample in families["horing_rank_up"].samples}, set("0123"))


class Records(Case):
    def test_a_deadline_leaves_a_file_of_every_rank_that_can_write(self):
        # No call of a busy machine takes that long by itself. Ranks are not ended with the first one, before they have written.
        self.start(more=["--keep-going"], HORING_TIMEOUT_MS="10000", HORING_RECORD_DIR=str(self.records))
        self.stop(self.moving(), 3)
        files = until("three files", lambda: found if len(found := list(self.records.glob("*-rank*.json"))) == 3 else None)
        self.assertEqual({path.name.partition("-")[2] for path in files}, {"rank0.json", "rank1.json", "rank2.json"})
        for path in files:
            report = json.loads(path.read_text())
            (world,) = report["communicators"]
            self.assertIn("rank 3", world["cause"])
            ended = [each for each in world["operations"] if each["state"] == "completed"]
            self.assertGreater(len(ended), 1)
            last = world["operations"][-1]
            self.assertIn(last["state"], ("running", "failed"))
            self.assertIn("rank", last["waits_for"])
            self.assertLessEqual(ended[-1]["entered_ns"], ended[-1]["first_piece_ns"])
            self.assertLessEqual(ended[-1]["first_piece_ns"], ended[-1]["last_piece_ns"])
            self.assertLessEqual(ended[-1]["last_piece_ns"], ended[-1]["ended_ns"])

    def test_a_signal_and_a_question_make_running_ranks_write(self):
        self.start(HORING_RECORD_SIGNAL=str(int(signal.SIGUSR2)), HORING_RECORD_DIR=str(self.records))
        view = self.moving()
        os.kill(view["ranks"][1]["pid"], signal.SIGUSR2)
        path = self.records / f"{view['job']}-rank1.json"
        until("the file of rank 1", path.exists)
        self.assertEqual(json.loads(path.read_text())["rank"], 1)
        answer = self.status("--record")
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        for rank in range(4):
            path = self.records / f"{view['job']}-rank{rank}.json"
            self.assertIn(f"rank {rank}: {path}\n", answer.stdout)
            self.assertLessEqual(len(json.loads(path.read_text())["communicators"][0]["operations"]), 1024)

    def test_a_folder_that_cannot_be_written_ends_the_start(self):
        job = self.start(HORING_RECORD_DIR=str(self.scratch / "missing"))
        self.assertNotEqual(job.wait(MOST), 0)
        self.assertIn(f"HORING_RECORD_DIR: the folder {self.scratch / 'missing'} is not there", (self.scratch / "job.log").read_text())

    def test_a_signal_of_a_fault_is_refused_by_name(self):
        job = self.start(HORING_RECORD_SIGNAL=str(int(signal.SIGSEGV)), HORING_RECORD_DIR=str(self.records))
        self.assertNotEqual(job.wait(MOST), 0)
        self.assertIn("HORING_RECORD_SIGNAL=11: takes 10 (SIGUSR1), 12 (SIGUSR2)", (self.scratch / "job.log").read_text())


class Jobs(Case):
    def test_of_several_jobs_one_is_to_be_named(self):
        self.start(ranks="1x2", log=self.scratch / "a.log")
        self.start(ranks="1x2", log=self.scratch / "b.log")
        def look():
            answer = self.status()
            return answer if answer.returncode == 1 and answer.stdout.count("all_reduce_perf") == 2 else None
        answer = until("two jobs", look)
        self.assertIn("several jobs run on this host: name one", answer.stderr)
        names = [line.split()[0] for line in answer.stdout.splitlines()[1:]]
        for name in names:
            self.assertRegex(until("its ranks", lambda name=name: self.status(name[:8])).stdout, f"^job {name}: ")
        listed = self.status("--json")
        self.assertEqual(listed.returncode, 1)
        self.assertIn("name one", listed.stderr)
        self.assertEqual({each["job"] for each in json.loads(listed.stdout)["jobs"]}, set(names))
        unknown = self.status(names[0][:-1] + ("1" if names[0][-1] == "0" else "0"))
        self.assertEqual(unknown.returncode, 1)
        self.assertIn("runs on this host; near it: " + names[0], unknown.stderr)
        for name in names:
            for rank in self.view(name)["ranks"]:
                os.kill(rank["pid"], signal.SIGKILL)

    def test_no_job_says_where_it_looked(self):
        answer = self.status()
        self.assertEqual(answer.returncode, 1)
        self.assertIn(f"no job of user {os.geteuid()} runs on this host", answer.stderr)
        self.assertIn(f"{self.folder}: is not there", answer.stderr)
        self.assertIn("HORING_STATUS_DIR=none", self.status(HORING_STATUS_DIR="none").stderr)

    def test_sockets_of_a_killed_job_are_removed_when_asked(self):
        job = self.start()
        view = self.moving()
        for rank in view["ranks"]:
            os.kill(rank["pid"], signal.SIGKILL)
        job.wait(MOST)
        self.assertGreaterEqual(len(list(self.folder.iterdir())), 1)
        self.assertIn("no job of user", self.status().stderr)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_sockets_of_another_host_in_a_shared_folder_stay_there(self):
        self.folder.mkdir(mode=0o700)
        elsewhere = self.folder / f"00c0ffee00c0ffee-7-{os.getpid()}-{int(HERE, 16) ^ 1:08x}"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(elsewhere))  # and listens no more, as all that is another host's seems here
        self.assertIn("no job of user", self.status().stderr)
        self.start()
        self.assertEqual(len(self.moving()["ranks"]), 4)
        self.assertTrue(elsewhere.exists())

    def test_a_job_that_ends_leaves_no_socket(self):
        job = self.start(PERF, "-b", "8", "-e", "8", "-n", "1")
        self.assertEqual(job.wait(MOST), 0)
        self.assertEqual(list(self.folder.iterdir()), [])


class Hostile(Case):
    def refused(self, why):
        job = self.start(PERF, "-b", "8", "-e", "8", "-n", "1")
        self.assertEqual(job.wait(MOST), 0)
        self.assertRegex((self.scratch / "job.log").read_text(), f"horing status will not find this rank: .*{why}")
        self.assertIn(why, self.status().stderr)

    def test_a_folder_that_others_may_enter_is_not_used(self):
        self.folder.mkdir(mode=0o755)
        self.folder.chmod(0o755)
        self.refused("other users may enter it")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_link_in_the_place_of_the_folder_is_not_followed(self):
        elsewhere = self.scratch / "elsewhere"
        elsewhere.mkdir(mode=0o700)
        self.folder.symlink_to(elsewhere)
        self.refused("is no folder")
        self.assertEqual(list(elsewhere.iterdir()), [])

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a folder away")
    def test_a_folder_of_another_user_is_not_used(self):
        self.folder.mkdir(mode=0o700)
        os.chown(self.folder, 65534, 65534)
        self.refused("belongs to user 65534")

    def test_what_a_rank_is_sent_does_not_disturb_it(self):
        self.start()
        view = self.moving()
        path = str(self.folder / f"{view['job']}-0-{view['ranks'][0]['pid']}-{HERE}")
        silent = []
        for sent in (b"", b"\0" * 63, b"x" * 100000, b"horing 2 status\n", b"horing 1 status", b"\n"):
            client = socket.socket(socket.AF_UNIX)
            self.addCleanup(client.close)
            client.settimeout(MOST)
            client.connect(path)
            try:
                client.sendall(sent)
            except (BrokenPipeError, ConnectionResetError):
                pass
            silent.append(client)
        self.assertEqual(len(self.moving()["ranks"]), 4)
        answer = b""
        while part := silent[3].recv(4096):
            answer += part
        self.assertIn("another version", json.loads(answer)["error"])
        # Nobody is waited for without end.
        self.assertEqual(silent[0].recv(1), b"")

    def test_a_socket_that_answers_nonsense_is_named_as_such(self):
        self.folder.mkdir(mode=0o700)
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(str(self.folder / f"00c0ffee00c0ffee-7-{os.getpid()}-{HERE}"))
        listener.listen()
        for nonsense in (b"\xff\x00", b"[]", b'{"time_ns": "x"}', b'{"host": 3, "time_ns": 1, "communicators": [[]]}'):
            asking = subprocess.Popen([HORING, "status"], env=self.environment(), stdout=subprocess.PIPE, text=True)
            for _ in range(2):  # what it does, and what others do
                connection, _ = listener.accept()
                connection.recv(100)
                connection.sendall(nonsense)
                connection.close()
            self.assertRegex(asking.communicate(timeout=MOST)[0], r"(?m)^ +7 +\d+ +answers what is no report$")
            self.assertEqual(asking.returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
