#!/usr/bin/env python3
"""Words that docs/design/glossary.md retired, or keeps for one meaning: in C and C++, Python and pages.

usage: check_words.py FILE...

A file is C or C++ or a page by its ending, and Python otherwise. Files are named from the root of the tree. A page's
names are those in its code.
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
    r"(?i)\b\w*greet(?:ing|ings|ed|er|ers|s)?\b": "handshake",
    r"\b(?:[Ii]ntroductions?|Introducer)\b": "claim",
    r"\bhellos?\b|\bkHello|Hellos?\b": "handshake, request",
    r"\b(?:[Rr]eceptions?|[Aa]dmissions?)_?\b": "acceptor",
    r"(?i)\b(?:CardNics?|rank[_ ]?cards?)\b": "rank info",
    r"(?i)\b\w*seat(?:s|ed|ing|ings)?_?\b": "NIC assignment",
    r"(?i)\broom[ _]?(?:records?|books?)\b": "receive credit, posted receives",
    r"(?i)\b\w*verdicts?\w*": "failure decision, result",
    r"\b(?:\w*Desks?|desks?|desk_of)\b": "failure aggregator",
    r"(?i)\b\w*farewell\w*": "shutdown",
    r"(?i)\b\w*departures?\w*|\bdepart(?:s|ed|ing)?\b": "leave notice",
    r"(?i)\b\w*lineages?\w*": "communicator id",
    r"\b(?:Wires|wires|wires_|MeetingLine)\b": "connection set, side channel",
    r"(?i)\b\w*patience\w*": "timeout",
    r"\bworth_a_look_?\b": "has_pending",
    r"\beverybody(?:s|s_text|_ok)\b": "all_gather_values, all_ok",
    r"\b(?:Wish\w*|wish|wishes|wished|parse_wish)\b": "requested strategy",
    r"\b[Tt]he lone rank\b": "single-rank baseline",
    r"(?i)\balike\b": "the same, equal",
    # English has room for something; a buffer that was posted is none.
    r"(?i)\brooms\b|\broom (?:is |need be |was )?announced\b|\bannounced room\b":
        "posted receives, buffers",
    r"(?i)\b(?:without|announced?s?|posts?|posted) (?:the )?places\b": "buffers",
}

# In pages' prose as well, where the word cannot have its one meaning: (pattern, which pages, what to say instead).
PROSE: tuple[tuple[str, str, str], ...] = (
    # The pages on plans, traces and their formats have lanes, which are intra or inter.
    (r"(?i)\blanes?\b", r"^(?!docs/design/|docs/reference/(?:environment|formats|json)\.md)", "channel, queue, width"),
    # Else pages say how a device's streams, NCCL's channels and CollNet's windows are used.
    (r"(?i)\b(?:tcp|net) (?:streams?|channels?|lanes?)\b", "", "connection"),
    (r"(?i)\b(?:text|sample|training) windows?\b|\bwindows? of (?:a|the) (?:text|corpus)\b", "", "sample"),
)

# In names only, where English needs the word: (pattern of a name's words, where it is refused, what to say instead). A
# name's words are in lower case with _ around them, then = and the name: _k_tcp_streams_=kTcpStreams. wire stays: a format.
NAMES: tuple[tuple[str, str, str], ...] = (
    (r"given|told|asked", "", "input, reported, requested"),
    (r"meets?|met", "", "rendezvous, join"),
    (r"depart(?:s|ed|ing)?", "", "leave, leave notice"),
    (r"greet(?:s|ed|er|ers|ing)?|hellos?|wish(?:es|ed)?|desks?|rank_?cards?|doors?", "",
     "handshake, request, requested strategy, failure aggregator, rank info, listener"),
    (r"rooms?", "", "capacity, buffer, space"),
    (r"alike", "", "same, equal"),
    # "in place" and "out of place" stay, and the verb that places ranks.
    (r"(?<!in_)(?<!out_of_)place(?=_of_|_text_|_on_|_at_|_=)|places", "", "position, location, index"),
    (r"shown", "", "escaped, listed"),
    (r"name_of|text_of|to_text|describ(?:e|es|ed|ing|er)", "", "to_string, NOUN_text"),
    # Of a plan, which plans are built, walked, emulated and printed by.
    (r"lanes?", r"^(?!src/(?:plan/|exec/(?!engine)|comm/)|plugin/core/rail/|tools/cli/plan/"
                r"|tests/(?:unit/(?:src|tools)/|inproc/virtual_time/|support/one_byte|golden/)"
                r"|docs/(?:design/|reference/json))",
     "channel, queue, width: a lane is intra or inter, of a plan"),
    # Of a device, which calls are given and the engine keeps; standard names have no _ before stream.
    (r"(?<!^_sock_)streams?", r"^(?:src/(?:transport|connect|bootstrap|topo|plan|base|os|group|auth|cost)/|plugin/"
                  r"|runtime/(?!capi/|collectives/|on_device/|run/|state/|step/)"
                  r"|python/paro/|tools/cli/(?!host/)|tools/bench/(?!perf/)"
                  r"|tests/(?:mproc|plugin|fuzz|golden/(?!golden_steps)|parity|inproc/(?!cuda_double/|device/|gpus/|nccl/|on_device/|paro_on_device/)"
                  r"|unit/(?!src/device/|runtime/(?:collectives|run|step)/)))",
     "connection, flow, output: a stream is an order of work on a device"),
    (r"streams?(?=_[^=]*=(?!stream$|StreamHandle$|check_stream$))", r"^src/(?:exec|comm|capi)/",
     "connection, flow: the caller's stream is called so, or a StreamHandle"),
    (r"channels?", r"^(?:runtime/|python/paro/|src/(?:device|connect|plan|topo|base/(?!env)|os|reduce|cost|auth|group)/"
                   r"|tools/cli/(?!plugin/)|tools/bench/(?!nccl_host/|plugin_perf/)|plugin/core/(?:ucx|builtin|rail|driver)/"
                   r"|tests/(?:parity|unit/runtime|torch_paro)/)",
     "track, connection: a channel is operations in one order, of a communicator"),
    (r"windows?", r"^(?:src/|runtime/|include/|python/|tools/cli/(?!plan/)|tools/bench/(?!nccl_host/)"
                  r"|tests/(?:mproc|parity|torch_\w+|python|unit/(?:src|runtime|tools/(?!cli/plan)))/)",
     "pass, sample: a window is what CollNet gives at once"),
    (r"nodes?", r"^(?:runtime/(?:run/(?!domains)|step/(?!traffic))|src/plan/op_graph)",
     "step_action, vertex: a node is a host"),
)

# What other programs read or call so: (file, what is found).
KEPT = {
    ("include/paro.h", "paro_place"), ("include/paro.h", "place"), ("include/paro/runner.hpp", "paro_place"),
    ("include/paro/runner.hpp", "place"), ("examples/gpu/sharded.hpp", "place"), ("runtime/capi/options.cpp", "place"), ("docs/guide/sharding.md", "place"),
    ("tests/inproc/paro_api/arguments_test.cpp", "place"), ("tests/inproc/paro_on_device/capi_test.cpp", "place"),
    ("tests/inproc/paro_on_device/capi_test.cpp", "paro_place"),  # paro_runner_options.place
    ("tools/bench/comparison/against_report.py", "verdict"),  # a column
    ("src/reduce/reduce.cpp", "Lanes"), ("src/reduce/reduce.cpp", "MaxLanes"),  # Highway's
    ("runtime/optim/optimizer.cpp", "Lanes"), ("runtime/optim/optimizer.cpp", "MaxLanes"),
    ("python/horing/buffers.py", "type_lanes"),  # DLPack's
    ("python/paro/torch/optimizer.py", "place_of"), ("tests/torch_paro/methods_test.py", "place_of"),  # an earlier name
    ("python/horing/torch/unsupported.py", "supports_window"),  # torch's
    ("tools/bench/measure/picture.py", "get_window_extent"),  # matplotlib's
    ("plugin/core/builtin/builtin_net.cpp", "kTcpStreams"),  # HORING_TCP_STREAMS
    ("src/transport/tcp/tcp_network.cpp", "kTcpStreams"), ("src/base/env.hpp", "kTcpStreams"),
    ("src/cost/collective.cpp", "streams"), ("src/cost/collective.hpp", "streams"),  # the verb
    ("docs/reference/planner.md", "meets"), ("docs/reference/planner.md", "given"),  # printed
    ("docs/design/device.md", "memory_kinds_are_told_apart"), ("docs/design/device.md", "mapped_memory_is_told_by_segments"),
}

CXX = (".c", ".cpp", ".cu", ".h", ".hpp")
# Comments, texts and characters, but not the marks in 1'000'000.
NO_NAMES = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
                      r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.DOTALL)
RETIRED_PATTERNS = [(re.compile(pattern), instead) for pattern, instead in RETIRED.items()]
PROSE_PATTERNS = [(re.compile(pattern), re.compile(where), instead) for pattern, where, instead in PROSE]
NAME_PATTERNS = [(re.compile(f"(?<=_)(?:{pattern})(?=_.*=)"), re.compile(where), instead) for pattern, where, instead in NAMES]
# A new word begins after a small letter or digit, and before the last of several capitals that a small one follows.
BETWEEN_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_+")
# A page's code: in spans, and in blocks, whose lines begin with four spaces and follow an empty one.
SPAN = re.compile(r"(`+)([^`]+?)\1")
BLOCK = re.compile(r"(?m)(?:\A|(?<=\n\n))(?: {4}[^\n]*\n|\n(?= {4}))+")


def words_of(name: str) -> str:
    return f"_{BETWEEN_WORDS.sub('_', name).strip('_').lower()}_={name}"


def cxx_names(text: str) -> Iterator[tuple[int, str]]:
    code = NO_NAMES.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)
    for number, line in enumerate(code.splitlines(), 1):
        for name in re.findall(r"[A-Za-z_]\w*", line):
            yield number, name


def python_names(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and not token.string.startswith("test_"):  # a sentence
            yield token.start[0], token.string


# A block with a prompt has commands, and what they print.
def page_names(text: str) -> Iterator[tuple[int, str]]:
    parts = [(match.start(2), re.sub(r"--[\w-]+", "", match[2])) for match in SPAN.finditer(text)]  # but options' names
    parts += [(match.start(), re.sub(r"#[^\n]*", "", match[0])) for match in BLOCK.finditer(text)
              if not re.search(r"(?m)^ {4}\$ ", match[0])]
    for start, code in parts:
        for number, name in cxx_names(code):
            yield text.count("\n", 0, start) + number, name


def names_of(file: str, text: str) -> Iterator[tuple[int, str]]:
    if file.endswith(CXX):
        return cxx_names(text)
    return page_names(text) if file.endswith(".md") else python_names(text)


# The glossary itself has the retired words in its tables' last column.
def without_last_column(file: str, text: str) -> str:
    if not file.endswith("docs/design/glossary.md"):
        return text
    return re.sub(r"(?m)^(\|.*\|)[^|\n]*\|[ \t]*$", r"\1", text)


def findings(file: str, text: str) -> list[str]:
    found = []
    for number, line in enumerate(without_last_column(file, text).splitlines(), 1):
        for pattern, instead in RETIRED_PATTERNS:
            found += [(number, match.group(0), instead) for match in pattern.finditer(line)]
        if file.endswith(".md"):
            for pattern, where, instead in PROSE_PATTERNS:
                found += [(number, match.group(0), instead) for match in pattern.finditer(line) if where.search(file)]
    patterns = [(pattern, instead) for pattern, where, instead in NAME_PATTERNS if where.search(file)]
    for number, name in names_of(file, without_last_column(file, text)) if patterns else ():
        found += [(number, name, instead) for pattern, instead in patterns if pattern.search(words_of(name))]
    once = {(number, word): instead for number, word, instead in reversed(found)}
    return [f"{file}:{number}: '{word}' is retired: {instead} (docs/design/glossary.md)"
            for (number, word), instead in sorted(once.items()) if (file, word) not in KEPT]


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
