#!/usr/bin/env python3
"""The check of words must find planted ones in sources, Python and pages, and leave English alone."""
import re
import unittest
from unittest import mock

import check_words


def found(file, text):
    return [re.search(r":(\d+): '(.*?)'", line).groups() for line in check_words.findings(file, text)]


class CheckWords(unittest.TestCase):
    def test_a_retired_word_is_found_in_sources_python_and_pages(self):
        for file, line in (("src/a.cpp", "// a rank that greets\nint kMostRanks = 1;"),
                           ("python/a.py", '"""A rank that greets."""\nkMostRanks = 1'),
                           ("a.md", "A rank that greets.\n`kMostRanks` is 1.")):
            self.assertEqual(found(file, line), [("1", "greets"), ("2", "kMostRanks")], file)

    def test_inflections_of_a_retired_word_are_found(self):
        for word in ("meetings", "pre_meeting", "doors", "greeted", "greetings", "introductions", "hellos", "receptions",
                     "admissions", "rank cards", "room books", "RoomRecord", "seated", "seating", "Verdicts", "desks",
                     "farewells", "departures", "lineages", "wishes"):
            self.assertEqual([each for _, each in found("a.md", f"Here are {word}.")], [word])

    def test_words_that_only_contain_one_are_left_alone(self):
        for text in ("the outdoors, a desktop, wired, wishing well, othello", "rooms for a greeter"):
            self.assertEqual(found("src/a.hpp", "// " + text), [])

    def test_a_name_is_found_in_code_and_not_in_comments_or_texts(self):
        patterns = [(re.compile(r"\w*told\w*"), re.compile(""), "reported")]
        with mock.patch.object(check_words, "NAME_PATTERNS", patterns):
            self.assertEqual(found("src/a.cpp", "// told\nauto a = \"told\"; /* told\n told */ bool told = 1'000;"),
                             [("3", "told")])
            self.assertEqual(found("python/a.py", '# told\na = "told"\n"""told\n"""\nwas_told = 1\n'), [("5", "was_told")])
            self.assertEqual(found("a.md", "What it was told."), [])

    def test_a_name_is_refused_only_in_its_folders(self):
        patterns = [(re.compile("stream"), re.compile(r"^(?!src/device/)"), "connection")]
        with mock.patch.object(check_words, "NAME_PATTERNS", patterns):
            self.assertEqual(found("src/device/a.cpp", "int stream;"), [])
            self.assertEqual(found("src/transport/a.cpp", "int stream;"), [("1", "stream")])

    def test_the_glossary_may_name_retired_words_in_its_last_column_only(self):
        self.assertEqual(found("docs/design/glossary.md", "| handshake | how both ends prove it | greeting |"), [])
        self.assertEqual(found("docs/design/glossary.md", "| handshake | it begins with a greeting | |"),
                         [("1", "greeting")])

    def test_a_word_of_one_meaning_is_refused_as_another_name(self):
        for file, name in (
                ("src/exec/a.cpp", "window_count"), ("src/reduce/a.cpp", "lanes"), ("src/transport/tcp/a.hpp", "Stream"),
                ("plugin/core/rail/a.cpp", "kStreamCount"), ("runtime/step/a.hpp", "Channel"), ("src/topo/a.cpp", "RankPlace"),
                ("runtime/run/a.hpp", "Node"), ("src/comm/a.cpp", "was_asked"), ("src/comm/a.cpp", "GivenConfiguration"),
                ("src/comm/a.cpp", "create_met"), ("src/exec/a.cpp", "departed"), ("plugin/core/builtin/a.cpp", "rooms_"),
                ("src/plan/a.cpp", "describe_op"), ("src/plan/a.cpp", "name_of"), ("src/base/a.cpp", "shown"),
                ("src/exec/a.cpp", "labelled_alike"), ("python/horing/a.py", "told")):
            self.assertEqual(found(file, f"{name} = 1"), [("1", name)])

    def test_a_word_in_its_one_meaning_is_left_alone(self):
        for file, name in (
                ("src/exec/a.cpp", "channel"), ("src/plan/a.hpp", "Lane"), ("src/device/a.hpp", "Stream"),
                ("plugin/core/rail/a.hpp", "Window"), ("src/topo/a.hpp", "nodes"), ("src/comm/a.cpp", "in_place"),
                ("src/comm/a.cpp", "placement"), ("src/comm/a.cpp", "place_ranks"), ("src/comm/a.cpp", "parameters"),
                ("python/horing/a.py", "test_ranks_meet_in_one_place")):
            self.assertEqual(found(file, f"{name} = 1"), [], name)


if __name__ == "__main__":
    unittest.main()
