#!/usr/bin/env python3
"""The check of tests must find planted faults and leave what is permitted alone."""
import pathlib
import tempfile
import unittest

import check_tests

UNIT = "tests/unit/src/os/some_test.cpp"


def check_file(name, text):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, name)
        path.parent.mkdir(parents=True)
        path.write_text(text)
        return check_tests.check(pathlib.Path(folder))


class CheckTests(unittest.TestCase):
    def assert_fault(self, name, text, line=1):
        faults, _ = check_file(name, text)
        self.assertEqual(len(faults), 1, (text, faults))
        self.assertTrue(faults[0].startswith(f"{name}:{line}: "), faults)

    def test_planted_sockets_threads_and_clocks_are_found(self):
        for code in ("#include <sys/socket.h>", "#  include <thread>", '#include "os/socket.hpp"',
                     '#include "reserved_port.hpp"', "const Fd fd(::socket(AF_INET, SOCK_STREAM, 0));",
                     "REQUIRE(::listen(fd, 1) == 0);", "std::thread other([] {});", "std::jthread other;",
                     "auto later = std::async(work);", "const pid_t child = ::fork();", "::pipe2(ends, 0);",
                     "std::this_thread::sleep_for(1ms);", "::usleep(1);", "const int64_t begin = now_ns();",
                     "wait(deadline_after(20s));", "std::chrono::steady_clock::time_point now;",
                     "::clock_gettime(0, &now);"):
            self.assert_fault(UNIT, "\n" + code + "\n", 2)
        for code in ("import subprocess", "from time import sleep", "  import threading", "os.fork()"):
            self.assert_fault("tests/unit/tools/bench/measure/some_test.py", code)

    def test_what_is_no_code_and_times_as_arguments_are_left_alone(self):
        for code in ("// over a socket(): std::thread", "/* fork()\nsleep_for */", 'CHECK(text == "std::thread fork(");',
                     'parse(R"({"clock": "steady_clock"})");', "CHECK(count == 10'000 + 20'000);", "server.accept();",
                     "stream.socket().fd;", "table.expire(kBegin + 10ms);", "const Deadline now{1000s};",
                     "#include <chrono>", '#include "os/shared_memory.hpp"', "CHECK(c == '\"'); // fork()"):
            self.assertEqual(check_file(UNIT, code)[0], [])

    def test_other_suites_may_have_sockets_and_threads(self):
        self.assertEqual(check_file("tests/inproc/os/some_test.cpp", "#include <thread>\n::fork();\n")[0], [])

    def test_names_that_are_no_sentences_are_found(self):
        for suite in (UNIT, "tests/mproc/a_test.cpp"):
            for case in ('TEST_CASE("rates") {', 'TEST_CASE("sizes and rates", "[a tag of it]") {',
                         'SECTION("another tag") {', 'TEST_CASE(\n    "one "\n    "two three") {'):
                self.assert_fault(suite, case)
        self.assert_fault("tests/layers/a_test.py", "    def test_of_sizes(self):")

    def test_names_of_four_words_pass_and_are_counted(self):
        self.assertEqual(check_file(UNIT, 'TEST_CASE("sizes have their units", "[x]") {\nSECTION(\n"one "\n"is as two")'),
                         ([], 2))


if __name__ == "__main__":
    unittest.main()
