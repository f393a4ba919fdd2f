#!/usr/bin/env python3
"""Words that docs/design/glossary.md retired, or keeps for one meaning: in C and C++, Python and pages.

usage: check_words.py FILE...

A file is C or C++ or a page by its ending, and Python otherwise. Files are named from the root of the tree.
"""
import io
import re
import sys
import tokenize
from collections.abc import Iterator

# In names, comments, texts and pages.
RETIRED = {
    r"\bkMost[A-Z]\w*|\bkMost\b": "kMax...",
    r"\bkLeast[A-Z]\w*|\bkLeast\b": "kMin...",
    r"(?i)\b\w*meeting\w*": "rendezvous",
    r"\b(?:door|doors|Door|Doors|\w*_door|\w*_doors)\b": "listener",
    r"(?i)\b\w*greet(?:ing|ings|ed|s)?\b": "handshake",
    r"\b(?:[Ii]ntroductions?|Introducer)\b": "claim",
    r"\bhellos?\b|\bkHello|Hello\b": "handshake, request",
    r"\b(?:[Rr]eceptions?|[Aa]dmissions?)_?\b": "acceptor",
    r"\b(?:RankCard|CardNic|rank_card\w*|rank cards?)\b": "rank info",
    r"(?i)\b\w*seat(?:s|ed|ing|ings)?_?\b": "NIC assignment",
    r"(?i)\broom[ _]?(?:records?|books?)\b": "receive credit, posted receives",
    r"(?i)\b\w*verdicts?\w*": "failure decision, result",
    r"\b(?:FailureDesk|desks?|desk_of)\b": "failure aggregator",
    r"(?i)\b\w*farewell\w*": "shutdown",
    r"(?i)\b\w*departures?\w*": "leave notice",
    r"(?i)\b\w*lineages?\w*": "communicator id",
    r"\b(?:Wires|wires|wires_|MeetingLine)\b": "connection set, side channel",
    r"(?i)\b\w*patience\w*": "timeout",
    r"\bworth_a_look_?\b": "has_pending",
    r"\beverybody(?:s|s_text|_ok)\b": "all_gather_values, all_ok",
    r"\b(?:Wish|wish|wishes|parse_wish|WishFile)\b": "requested strategy",
    r"\b[Tt]he lone rank\b": "single-rank baseline",
}

# In names only, where English needs the word: (pattern of a name, where it is refused, what to say instead).
NAMES: tuple[tuple[str, str, str], ...] = (
    (r"(?i)(?:.*_)?(?:given|told|asked)(?:_.*)?|k?\w*(?:Given|Told|Asked)(?:[A-Z]\w*)?", "", "input, reported, requested"),
    (r"(?:.*_)?(?:meets?|met)(?:_.*)?|Met", "", "rendezvous, join"),
    (r"(?i)(?:.*_)?depart(?:s|ed|ing)?(?:_.*)?|k?Departed", "", "leave, leave notice"),
    (r"(?:.*_)?rooms?(?:_.*)?|k?Rooms?", "", "capacity, buffer, space"),
    (r"(?:.*_)?alike(?:_.*)?", "", "same, equal"),
    (r"(?!(?:\w*_)?(?:in|out_of)_place)(?:.*_)?places?_?(?:_of\w*|_text|_on\w*)?|\w*[a-z]Places?|Places?", "",
     "position, location, index (in place and placement stay)"),
    (r"(?:.*_)?shown_?|can_be_shown|shown_.*", "", "escaped, listed"),
    (r"name_of|text_of|to_text|describe(?:_.*)?|described", r"^(?!tests/.*\.py$)", "to_string, NOUN_text"),
    (r"(?:.*_)?lanes?_?|\w*Lanes?", r"^(?:src/(?:device|reduce|transport|base|os)/|src/exec/engine|runtime/|python/|tools/cli/host/)",
     "channel, queue, width: a lane is intra or inter, of a plan"),
    (r"(?:.*_)?streams?(?:_.*)?|k?\w*Streams?(?:[A-Z]\w*)?", r"^(?:src/(?:transport|connect|bootstrap|topo|plan)/|plugin/core/|tools/cli/run/)",
     "connection, flow, output: a stream is an order of work on a device"),
    (r"(?:.*_)?channels?(?:_.*)?|\w*Channels?(?:[A-Z]\w*)?", r"^(?:runtime/|tools/bench/paro_bench/|plugin/core/(?:ucx|builtin|rail|driver)/|src/(?:device|connect|plan)/)",
     "track, connection: a channel is operations in one order, of a communicator"),
    (r"(?:.*_)?windows?(?:_.*)?|k?\w*Windows?(?:[A-Z]\w*)?", r"^(?:src/|runtime/|tools/bench/train_gpt/)",
     "pass, sample: a window is what CollNet gives at once"),
    (r"Node|nodes?_?", r"^(?:runtime/(?:run/(?!domains)|step/(?!traffic))|src/plan/op_graph)", "step_action, vertex: a node is a host"),
)

# What other programs read or call so: (file, what is found).
KEPT = {
    ("tools/bench/comparison/against_report.py", "verdict"),  # a column
    ("src/reduce/reduce.cpp", "Lanes"), ("src/reduce/reduce.cpp", "MaxLanes"),  # Highway's
    ("runtime/optim/optimizer.cpp", "Lanes"), ("runtime/optim/optimizer.cpp", "MaxLanes"),
    ("python/horing/buffers.py", "type_lanes"),  # DLPack's
    ("plugin/core/builtin/builtin_net.cpp", "kTcpStreams"),  # HORING_TCP_STREAMS
    ("src/transport/tcp/tcp_network.cpp", "kTcpStreams"),
}

CXX = (".c", ".cpp", ".cu", ".h", ".hpp")
# Comments, texts and characters, but not the marks in 1'000'000.
NO_NAMES = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
                      r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.DOTALL)
RETIRED_PATTERNS = [(re.compile(pattern), instead) for pattern, instead in RETIRED.items()]
NAME_PATTERNS = [(re.compile(pattern), re.compile(where), instead) for pattern, where, instead in NAMES]


def cxx_names(text: str) -> Iterator[tuple[int, str]]:
    code = NO_NAMES.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)
    for number, line in enumerate(code.splitlines(), 1):
        for name in re.findall(r"[A-Za-z_]\w*", line):
            yield number, name


def python_names(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and not token.string.startswith("test_"):  # a sentence
            yield token.start[0], token.string


def names_of(file: str, text: str) -> Iterator[tuple[int, str]]:
    if file.endswith(CXX):
        return cxx_names(text)
    return iter(()) if file.endswith(".md") else python_names(text)


# The glossary itself has the retired words in its tables' last column.
def lines_of(file: str, text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if file.endswith("docs/design/glossary.md") and line.startswith("|"):
            line = line.rstrip().removesuffix("|").rpartition("|")[0]
        yield number, line


def findings(file: str, text: str) -> list[str]:
    found = []
    for number, line in lines_of(file, text):
        for pattern, instead in RETIRED_PATTERNS:
            found += [(number, match.group(0), instead) for match in pattern.finditer(line)]
    patterns = [(pattern, instead) for pattern, where, instead in NAME_PATTERNS if where.search(file)]
    for number, name in names_of(file, text) if patterns else ():
        found += [(number, name, instead) for pattern, instead in patterns if pattern.fullmatch(name)]
    return [f"{file}:{number}: '{word}' is retired: {instead} (docs/design/glossary.md)"
            for number, word, instead in sorted(set(found)) if (file, word) not in KEPT]


def main() -> None:
    found = []
    for file in sys.argv[1:]:
        if not file.endswith(("check_words.py", "check_words_test.py", "docs/changelog.md")):  # which have to name them
            with open(file, encoding="utf-8") as source:
                found += findings(file, source.read())
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
