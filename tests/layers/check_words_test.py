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
                     "farewells", "departures", "lineages", "wishes", "greeter", "Greeter", "Hellos", "WishList", "Desk",
                     "RankCards", "rankcard", "departed", "alike", "rooms"):
            self.assertEqual([each for _, each in found("a.md", f"Here are {word}.")], [word])

    def test_words_that_only_contain_one_are_left_alone(self):
        for text in ("the outdoors, a desktop, wired, wishing well, othello", "room for a wire format, a department"):
            self.assertEqual(found("src/a.hpp", "// " + text), [])

    def test_a_name_is_found_in_code_and_not_in_comments_or_texts(self):
        patterns = [(re.compile("_told_"), re.compile(""), "reported")]
        with mock.patch.object(check_words, "NAME_PATTERNS", patterns):
            self.assertEqual(found("src/a.cpp", "// told\nauto a = \"told\"; /* told\n told */ bool told = 1'000;"),
                             [("3", "told")])
            self.assertEqual(found("python/a.py", '# told\na = "told"\n"""told\n"""\nwas_told = 1\n'), [("5", "was_told")])

    def test_a_pages_names_are_those_in_its_code(self):
        patterns = [(re.compile("_told_"), re.compile(""), "reported")]
        with mock.patch.object(check_words, "NAME_PATTERNS", patterns):
            page = ("What it was told.\nIt is `was_told`, and\n\n    // told\n    bool told;  # told\n\n    told();\n\n"
                    "Nothing is\n    told here, and\n\n    $ program\n    what it was told\n")
            self.assertEqual(found("a.md", page), [("2", "was_told"), ("5", "told"), ("7", "told")])

    def test_a_word_whose_one_meaning_a_page_cannot_have_is_refused_in_its_prose(self):
        for file, line, word in (("docs/guide/gpu.md", "It sends on both lanes.", "lanes"),
                                 ("README.md", "Over several TCP streams.", "TCP streams"),
                                 ("docs/reference/torch.md", "A text window has 17 bytes.", "text window"),
                                 ("docs/guide/gpu.md", "All ranks set it alike.", "alike"),
                                 ("docs/guide/gpu.md", "The peer announced rooms.", "rooms"),
                                 ("docs/guide/gpu.md", "A rank that departed.", "departed"),
                                 ("docs/guide/gpu.md", "A receive without places.", "without places")):
            self.assertEqual(found(file, line), [("1", word)])
        for file, line in (("docs/design/ho-ring.md", "The inter lane is the network."),
                           ("docs/guide/gpu.md", "It waits for your stream, and the windows of CollNet have room."),
                           ("src/plan/plan.hpp", "// on which lane")):
            self.assertEqual(found(file, line), [])

    def test_a_name_is_refused_only_in_its_folders(self):
        patterns = [(re.compile("_stream_"), re.compile(r"^(?!src/device/)"), "connection")]
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
                ("src/exec/a.cpp", "labelled_alike"), ("python/horing/a.py", "told"), ("src/a.cpp", "kAlike"),
                ("src/a.cpp", "areAlike"), ("src/a.cpp", "ShownText"), ("src/a.cpp", "isShown"), ("src/a.cpp", "placeOf"),
                ("src/a.cpp", "RoomLeft"), ("src/a.cpp", "metAll"), ("src/a.cpp", "meetsPeer"), ("src/a.cpp", "nameOf"),
                ("src/a.cpp", "textOf"), ("src/a.cpp", "toText"), ("src/a.cpp", "describes"), ("src/exec/a.hpp", "Stream"),
                ("src/comm/a.hpp", "StreamSet"), ("runtime/run/a.hpp", "NodeId"), ("runtime/run/a.cpp", "node_id"),
                ("tools/bench/perf/a.cpp", "lane_count"), ("tools/bench/paro_bench/a.cpp", "OpenStream"),
                ("tools/bench/perf/a.cpp", "Channel"), ("tools/bench/train_gpt/a.cpp", "kWindows"),
                ("tests/parity/a.cpp", "streams_"), ("tests/unit/runtime/a.cpp", "channel_of"),
                ("tests/mproc/a.cpp", "window"), ("python/paro/a.py", "window_size"), ("python/paro/a.py", "stream_id"),
                ("python/paro/a.py", "channels"), ("src/device/kernels/a.cu", "laneIndex"), ("src/a.cpp", "GreeterThread")):
            self.assertEqual(found(file, f"{name} = 1"), [("1", name)])

    def test_a_word_in_its_one_meaning_is_left_alone(self):
        for file, name in (
                ("src/exec/a.cpp", "channel"), ("src/plan/a.hpp", "Lane"), ("src/device/a.hpp", "Stream"),
                ("plugin/core/rail/a.hpp", "Window"), ("src/topo/a.hpp", "nodes"), ("src/comm/a.cpp", "in_place"),
                ("src/comm/a.cpp", "placement"), ("src/comm/a.cpp", "place_ranks"), ("src/comm/a.cpp", "parameters"),
                ("src/exec/a.cpp", "StreamHandle"), ("src/comm/a.cpp", "stream"), ("src/os/a.cpp", "SOCK_STREAM"),
                ("src/os/a.cpp", "ifstream"), ("src/a.cpp", "kInPlace"), ("src/a.cpp", "emplace_back"),
                ("src/bootstrap/a.cpp", "wire"), ("src/device/a.cpp", "NoDevice"), ("docs/guide/gpu.md", "the `in_place` form"),
                ("python/horing/a.py", "test_ranks_meet_in_one_place")):
            self.assertEqual(found(file, f"{name} = 1"), [], name)


if __name__ == "__main__":
    unittest.main()
