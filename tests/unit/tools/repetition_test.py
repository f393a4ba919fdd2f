#!/usr/bin/env python3
"""Which failures tools/test repeats, from planted outputs of each kind."""
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "tools"))
# pylint: disable=wrong-import-position
import test_repetition as repetition  # noqa: E402

LINE = "-" * 79
TRACE = 'Traceback (most recent call last):\n  File "a.py", line 2, in run\n    run()\n'
LATE = "rank 1: 3 all_reduce #4 did not complete within 2000 ms; this rank waits in: all_reduce #4"


def catch(*failures, count=None):
    """What Catch2 2 prints of failed assertions."""
    head = f"{LINE}\nthe case of it\n{LINE}\nsome_test.cpp:9\n{'.' * 79}\n\nsome_test.cpp:12: FAILED:\n"
    text = "\n".join(f"{head}{failure}\n" for failure in failures)
    number = len(failures) if count is None else count
    return f"{text}\n{'=' * 79}\ntest cases: 2 | 1 passed | 1 failed\nassertions: 20 | {20 - number} passed | " \
           f"{number} failed\n"


def of(expression, expansion, *messages):
    said = "".join(f"\nwith message:\n  {message}" for message in messages)
    return f"  CHECK( {expression} )\nwith expansion:\n  {expansion}{said}\n"


def thrown(text):
    return f"  {{Unknown expression after the reported line}}\ndue to unexpected exception with message:\n  {text}\n"


def unit(*failures, kind="ERROR", count=None):
    """What Python's unittest prints of failures."""
    head = f"{'=' * 70}\n{kind}: test_it (__main__.Some.test_it)\n{'-' * 70}\n{TRACE}"
    text = "".join(f"{head}{failure}\n\n" for failure in failures)
    number = len(failures) if count is None else count
    return f"{text}{'-' * 70}\nRan 5 tests in 1.5s\n\nFAILED ({'errors' if kind == 'ERROR' else 'failures'}={number})\n"


def pytest(*failures, count=None):
    """What pytest prints of them with --tb=native."""
    head = f"{'_' * 30} test_it {'_' * 30}\n{TRACE}"
    text = "".join(f"{head}{failure}\n" for failure in failures)
    number = len(failures) if count is None else count
    return f"a_test.py::test_it FAILED [ 9%]\n{'=' * 35} FAILURES {'=' * 35}\n{text}" \
           f"{'=' * 27} short test summary info {'=' * 27}\nFAILED a_test.py::test_it - KeyError: it\n" \
           f"{'=' * 25} {number} failed, 3 passed in 0.16s {'=' * 25}\n"


class Rule(unittest.TestCase):
    def assert_chance(self, output, status=1):
        self.assertEqual(repetition.why_final(status, output), "", output)

    def assert_final(self, output, status=1, why=""):
        found = repetition.why_final(status, output)
        self.assertNotEqual(found, "", output)
        self.assertIn(why, found)

    def test_errors_of_deadlines_addresses_and_shortages_are_chance(self):
        for failure in (of("outcome.status == HO_OK", "3 == 0"),
                        of("outcome.status == HO_OK", "3 == 0", LATE),
                        of("outcome.status == HO_OK", "5 == 0", "rank 2 left: 1 of 2 ranks came within 900 ms"),
                        of('errors[rank] == ""', f'"{LATE}" == ""'),
                        of("made.ok()", "false", "system error: bind(127.0.0.1:4711): Address already in use"),
                        of("links->ok()", "false", "connect(127.0.0.1:9): Connection refused"),
                        thrown("create: rank 0 was not found before the deadline; last: Connection refused"),
                        thrown("timeout: nobody connected to lo within 3000 ms"),
                        thrown("socket: Too many open files"),
                        thrown("cannot set up a second interface")):
            self.assert_chance(catch(failure))
        self.assert_chance(catch(of("outcome.status == HO_OK", "3 == 0"), thrown(LATE)), 2)

    def test_values_of_assertions_are_final_whatever_else_they_say(self):
        for failure in (of("sum == 10.0F", "9.0f == 10.0f"),
                        of("sum == 10.0F", "9.0f == 10.0f", LATE),
                        of("outcome.status == HO_PEER_LOST", "3 == 5", LATE),
                        of("outcome.status == HO_OK", "12 == 0", LATE),
                        of("outcome.status == HO_OK", "2 == 0", LATE),
                        of("outcome.status == HO_OK", "5 == 0", "rank 2 left"),
                        of('has(outcome.message, "rank 1 did not complete within")', "false", LATE),
                        of('outcome.message == "did not complete within 5 ms"', '"" == "did not complete within 5 ms"'),
                        of("!made.ok()", "!true", LATE),
                        of("made.ok()", "false"),
                        of("outcome.exited", "false", LATE),
                        of("a.ok() && b == 0", "false", LATE),
                        thrown("a value that differs")):
            self.assert_final(catch(failure), why="wrong value")
            # One that is final makes the test so.
            self.assert_final(catch(failure, of("outcome.status == HO_OK", "3 == 0")), 2)

    def test_limits_for_hangs_are_final_and_shorter_ones_are_not(self):
        self.assert_final(catch(thrown("all_reduce #1 did not complete within 60000 ms")))
        self.assert_chance(catch(thrown("all_reduce #1 did not complete within 59000 ms")))
        self.assert_final(catch(of("status == HO_OK", "3 == 0", "all_reduce #1 did not complete within 120000 ms")))
        self.assert_final(catch(thrown("rank 3 hangs; it said: ready")))
        expired = "subprocess.TimeoutExpired: Command 'horing' timed out after %d seconds"
        self.assert_final(unit(expired % 120))
        self.assert_chance(unit(expired % 20))

    def test_sanitizers_crashes_and_signals_are_final_beside_any_chance_error(self):
        chance = catch(of("outcome.status == HO_OK", "3 == 0"))
        for report in ("==7==ERROR: AddressSanitizer: heap-use-after-free", "SUMMARY: LeakSanitizer: 8 byte(s)",
                       "WARNING: ThreadSanitizer: data race", "a.cpp:3:5: runtime error: signed integer overflow",
                       "AddressSanitizer:DEADLYSIGNAL", "==7==ERROR: UndefinedBehaviorSanitizer: SEGV"):
            self.assert_final(chance + report, why="sanitizer")
            self.assert_final(report, why="sanitizer")
        for crash in ("terminate called after throwing an instance of 'int'", "Segmentation fault (core dumped)",
                      "due to a fatal error condition:\n  SIGSEGV", "free(): invalid pointer",
                      "a: b.cpp:3: f: Assertion `x' failed.", "Fatal Python error: Segmentation fault"):
            self.assert_final(chance + crash, why="crash")
        for status in (-11, -6, 0, 128, 134, 139, 255):
            self.assert_final(chance, status, f"status {status}")

    def test_failures_that_are_not_all_to_be_read_are_final(self):
        self.assert_final(catch(of("outcome.status == HO_OK", "3 == 0"), count=2), 2, "not every failed assertion")
        self.assert_final(catch(count=1), why="not every failed assertion")
        self.assert_final("some_test.cpp:12: FAILED:\n" + thrown(LATE), why="not every failed assertion")
        for run in (unit, pytest):
            self.assert_final(run("TimeoutError: too late", count=2), why="not every failed test")
        for output in ("", LATE, "TimeoutError: too late", "ok    a\nnot as it should be"):
            self.assert_final(output, why="nothing in the output")

    def test_exceptions_of_python_are_chance_where_all_of_them_are(self):
        ranks = f"ranks.RanksFailed: rank 0: {TRACE}%s\n\nrank 1: {TRACE}%s"
        late, lost = f"horing.errors.TimeoutError: {LATE}", "horing.errors.PeerLostError: rank 0 left"
        for failure in (late, "TimeoutError", "ConnectionRefusedError: [Errno 111] Connection refused",
                        "OSError: [Errno 98] Address already in use", ranks % (late, late)):
            self.assert_chance(unit(failure))
            self.assert_chance(pytest(failure))
        self.assert_chance(unit(f"AssertionError: 1 != 0 : horing run: {LATE}"))
        self.assert_chance(pytest(f"AssertionError: horing run: {LATE}\nassert 1 == 0\n +  where 1 = done.returncode"))
        for failure in (lost, "AssertionError: 9.0 != 10.0", f"AssertionError: 9.0 != 10.0 : {LATE}",
                        f"AssertionError: -11 != 0 : {LATE}", f"AssertionError: 139 != 0 : {LATE}",
                        "AssertionError: 1 != 0 : it said nothing", ranks % (late, "AssertionError: sums differ"),
                        "ranks.RanksFailed: rank 0: the process ended",
                        "ranks.RanksFailed: rank 0: no result after 900 s",
                        f"{late}\n\nDuring handling of the above exception, another exception occurred:\n\nKeyError: 3",
                        f"KeyError: 3\n\nDuring handling of the above exception, another exception occurred:\n\n{TRACE}"
                        f"    raise late('{LATE}')\n{late}",
                        "no exception at all"):
            self.assert_final(unit(failure), why="wrong value")
            self.assert_final(unit(late, failure), why="wrong value")
            self.assert_final(pytest(failure), why="wrong value")
            self.assert_final(pytest(late, failure), why="wrong value")
        for values in ("assert 3 == 0", "assert 139 == 0\n +  where 139 = done.returncode",
                       "assert 1 == 0\n +  where 1 = sums.first"):
            self.assert_final(pytest(f"AssertionError: {LATE}\n{values}"), why="wrong value")

    def test_a_script_is_repeated_where_it_could_not_set_up(self):
        self.assert_chance("ok    a\nFAIL  a second address: cannot set up: no room\nok    b")
        self.assert_final("ok    a\nFAIL  a sum: wanted '3', got '4'\nFAIL  an address: cannot set up: no room")

    def test_only_a_failure_of_mesons_is_repeated(self):
        chance = {"returncode": 1, "stdout": catch(of("outcome.status == HO_OK", "3 == 0"))}
        self.assertEqual(repetition.why_final_of_test({"result": "FAIL", **chance}), "")
        for result in ("TIMEOUT", "ERROR", "INTERRUPT", "UNEXPECTEDPASS"):
            self.assertIn(result, repetition.why_final_of_test({"result": result, **chance}))
        self.assertIn("sanitizer", repetition.why_final_of_test(
            {"result": "FAIL", **chance, "stderr": "==7==ERROR: AddressSanitizer: SEGV"}))


if __name__ == "__main__":
    unittest.main()
