#!/usr/bin/env python3
"""What is said of two builds, from made-up results."""
import argparse
import json
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parents[5] / "tools" / "bench"))
# pylint: disable=wrong-import-position
from comparison import against, against_report  # noqa: E402

SIZE, BIG = 65536, 1 << 20
FACTS = {"command": "tools/bench/compare --against b", "date": "2000-01-01", "cores": 2, "rounds": 11, "plugin": False,
         "links": {"cluster": "horing run -n 4x4"},
         "builds": {"this": {"folder": "a", "version": "horing 2", "options": {"buildtype": "release"}},
                    "other": {"folder": "b", "version": "horing 1", "options": {"buildtype": "debug"}}}}


def job(kind, size, this, other, cpu=(1.0, 1.0), count=10):
    sides = {side: [{"times_us": {size: time} if time else {}, "cpu_s": seconds if time else None,
                     "failure": "" if time else "exit status 1"} for time in times]
             for side, times, seconds in (("this", this, cpu[0]), ("other", other, cpu[1]))}
    return {"link": "cluster", "collective": "all_reduce", "kind": kind, "runs": [[size, count]], **sides}


def line_of(*arguments):
    return against_report.lines_of([job(*arguments)])[0]


class Results(unittest.TestCase):
    def test_large_sizes_go_by_the_median(self):
        self.assertTrue(line_of("large", BIG, [100] * 11, [99.5] * 11).passed)
        self.assertFalse(line_of("large", BIG, [100] * 11, [98] * 11).passed)
        # Six of eleven decide, however far away the others are.
        self.assertTrue(line_of("large", BIG, [100] * 11, [100] * 6 + [10] * 5).passed)
        self.assertFalse(line_of("large", BIG, [100] * 11, [100] * 5 + [10] * 6).passed)

    def test_small_sizes_go_by_the_interval(self):
        # Of eleven ratios the interval goes from the second to the tenth.
        self.assertTrue(line_of("small", SIZE, [100] * 11, [90] * 9 + [100] * 2).passed)
        self.assertFalse(line_of("small", SIZE, [100] * 11, [90] * 10 + [100]).passed)
        self.assertTrue(line_of("small", SIZE, [100] * 11, [200] * 11).passed)

    def test_a_ratio_above_one_is_faster_now(self):
        ratio = line_of("large", BIG, [50] * 11, [100] * 11).ratio
        self.assertEqual((ratio.median, ratio.interval.low, ratio.interval.high), (2, 2, 2))

    def test_processor_time_is_bounded_for_calls_and_gigabytes(self):
        for kind, size, share, what in (("calls", 8, 0.2, "10,000 calls of 8 B"),
                                        ("large", BIG, 2000 * BIG / 1e9, "GB")):
            for seconds, passed in ((1.03, True), (1.04, False)):
                line = against_report.lines_of([job(kind, size, [1] * 11, [1] * 11, (seconds, 1.0), 2000)])[1]
                self.assertEqual((line.what, line.passed, line.is_time), (what, passed, False))
                self.assertAlmostEqual(line.this, seconds / share)
        self.assertEqual(len(against_report.lines_of([job("small", SIZE, [1], [1])])), 1)

    def test_failed_rounds_do_not_count_and_nothing_is_no_success(self):
        line = line_of("large", BIG, [100, None, 100], [100, 100, None])
        self.assertEqual((line.ratio.pairs, line.passed), (1, True))
        for line in against_report.lines_of([job("large", BIG, [None], [100])]):
            self.assertEqual((line.ratio, line.passed), (None, False))

    def test_a_report_that_was_read_back_says_the_same(self):
        some = job("large", BIG, [100] * 11, [100] * 11)
        self.assertEqual(against_report.lines_of([some]), against_report.lines_of([json.loads(json.dumps(some))]))

    def test_the_page_names_builds_lines_and_failures(self):
        jobs = [job("large", BIG, [100] * 11, [90] * 11), job("small", SIZE, [None] + [1] * 10, [1] * 11)]
        text = "\n".join(against_report.page(FACTS, against_report.lines_of(jobs), jobs))
        for words in ("this build: horing 2; the other: horing 1 (versions differ)",
                      "built differently: buildtype is 'release', in the other build 'debug'",
                      "| cluster | all_reduce | 1 MiB | 100.0 us | 90.0 us | 0.900 | 0.900 to 0.900 | 11 | "
                      "[ ] median at least 0.99 |", "95 % interval",
                      "- this build, cluster, all_reduce, small, round 1: exit status 1",
                      "2 of 3 lines met: missed cluster, all_reduce, 1 MiB"):
            self.assertIn(words, text)

    def test_too_few_rounds_are_said(self):
        jobs = [job("large", BIG, [100] * 2, [100] * 2)]
        self.assertIn("50% interval (too few rounds for 95 %)",
                      "\n".join(against_report.page(FACTS, against_report.lines_of(jobs), jobs)))


class Jobs(unittest.TestCase):
    def test_sizes_are_shared_among_jobs(self):
        options = argparse.Namespace(links="cluster,one_node", shape="4x4", collectives="all_gather,all_reduce",
                                     calls=10000, sizes="8,64K,1M,16M")
        works = against.works_of(options)
        self.assertEqual([(w.link, w.kind, w.runs[0][0]) for w in works if w.collective == "all_gather"],
                         [("cluster", "calls", 64), ("cluster", "small", 65536), ("cluster", "large", BIG),
                          ("one_node", "calls", 16), ("one_node", "small", 65536), ("one_node", "large", BIG)])
        self.assertEqual(works[3].runs, ((8, 10000),))
        self.assertEqual([size for size, _ in works[5].runs], [BIG, 16 * BIG])

    def test_each_link_has_its_own_arguments(self):
        options = argparse.Namespace(shape="4x4", rails=4, rail_rate="200mbit")
        ends = {link: against.run_arguments(options, link)[4:] for link in against.LINKS}
        self.assertEqual(ends, {"cluster": ["4x4", "--rails", "4", "--rail-rate", "200mbit"],
                                "unlimited": ["4x4", "--rails", "4", "--rail-rate", "none"],
                                "loopback": ["4x4", "--emulate", "none"], "one_node": ["1x4"]})

    def test_the_table_of_plugin_perf_is_read(self):
        text = ("# plugin_perf  nodes 2 x 2 ranks\n#       size  count\n"
                "   65536  16384  float  sum  ar  1394.67  0.047  0.070  23.53  0  -  -  -  -  -  -  -  -\n"
                " 1048576  262144  float  sum  ar  22620.16  0.046  0.070  10.75  3  -  -  -  -  -  -  -  -\n"
                "# Out of bounds values : 0 OK\n")
        self.assertEqual(against.read_plugin(text), [(65536, 1394.67, 0), (1048576, 22620.16, 3)])


if __name__ == "__main__":
    unittest.main()
