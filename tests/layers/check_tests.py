#!/usr/bin/env python3
"""Fails where a test under tests/unit names a socket, a thread, a process, a sleep or a clock, and where the name
of any test, a case or a section of one, has fewer than four words: a sentence says what is proved.

usage: check_tests.py [ROOT]

What has them belongs to tests/inproc or tests/mproc. A time that is handed to what is tested is no clock.
"""
import pathlib
import re
import sys

SOURCES = (".h", ".hpp", ".c", ".cpp")
MIN_WORDS = 4

INCLUDE = re.compile(r'^[ \t]*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)
HEADERS = re.compile(
    r"sys/(?:socket|un|epoll|eventfd|timerfd|wait|select)\.h|netinet/.*|arpa/.*|netdb\.h|poll\.h|spawn\.h|pthread\.h|"
    r"thread|future|condition_variable|barrier|latch|semaphore|time\.h|ctime|"
    r"os/(?:socket|fd_passing|futex)\.hpp|bootstrap/control/control_plane\.hpp|"
    r"(?:process_)?job\.hpp|reserved_port\.hpp|shared_count\.hpp|more_time\.hpp")
NAMES = re.compile(
    r"(?<![\w.>])(?:socket|socketpair|epoll_\w+|pipe2?|fork|vfork|posix_spawnp?|popen|waitpid|clock_gettime|"
    r"gettimeofday|u?sleep|nanosleep|now_ns|deadline_after|passed)\s*\(|"
    r"(?<!\w)::(?:bind|listen|connect|accept4?|poll|pause|system|time|kill)\s*\(|"
    r"\bstd::(?:thread|jthread|async|system)\b|\bsleep_(?:for|until)\b|\b\w+_clock\b|\bClock::now\b|\bCLOCK_\w+")
PYTHON = re.compile(
    r"^[ \t]*(?:import|from)\s+(?:subprocess|socket|selectors|threading|multiprocessing|concurrent|asyncio|time)\b|"
    r"\bos\.(?:fork|system|popen|pipe|spawn\w*|exec\w*)\b", re.MULTILINE)

# What is no code: texts, characters (but not the marks within numbers) and comments.
NO_CODE = re.compile(r'R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*|/\*(?:.|\n)*?\*/')
CASE = re.compile(r'\b(?:TEST_CASE|SECTION)\s*\(\s*((?:"(?:\\.|[^"\\\n])*"\s*)+)')
LITERAL = re.compile(r'"((?:\\.|[^"\\\n])*)"')
PYTHON_CASE = re.compile(r"^[ \t]*def test_(\w*)\(", re.MULTILINE)


def line_of(text, match):
    return text.count("\n", 0, match.start()) + 1


def forbidden_in(text, is_python):
    """(line, what) of each thing that no unit test may name."""
    if is_python:
        found = [(match, match[0].strip()) for match in PYTHON.finditer(text)]
    else:
        found = [(match, f"includes {match[1]}") for match in INCLUDE.finditer(text) if HEADERS.fullmatch(match[1])]
        text = NO_CODE.sub(lambda match: "\n" * match[0].count("\n"), text)
        found += [(match, match[0].rstrip("( ")) for match in NAMES.finditer(text)]
    return [(line_of(text, match), what) for match, what in found]


def names_in(text, is_python):
    """(line, name, words) of each test."""
    if is_python:
        return [(line_of(text, match), match[1], match[1].split("_")) for match in PYTHON_CASE.finditer(text)]
    cases = [(match, "".join(LITERAL.findall(match[1]))) for match in CASE.finditer(text)]
    return [(line_of(text, match), name, name.split()) for match, name in cases]


def check(root):
    """The faults, one line each, and how many tests there are."""
    faults = []
    count = 0
    for path in sorted((root / "tests").rglob("*")):
        is_python = path.suffix == ".py"
        if not is_python and path.suffix not in SOURCES:
            continue
        name = str(path.relative_to(root))
        text = path.read_text()
        if name.startswith("tests/unit/"):
            faults += [f"{name}:{line}: {what}: no unit test has sockets, threads, processes, sleeps or clocks; "
                       "tests/inproc does" for line, what in forbidden_in(text, is_python)]
        for line, test, words in names_in(text, is_python):
            count += 1
            if len(words) < MIN_WORDS:
                faults.append(f"{name}:{line}: '{test}' is no sentence that says what is proved")
    return faults, count


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
    faults, count = check(root)
    for fault in faults:
        print(fault)
    print(f"tests: {count} names, {len(faults)} faults")
    return 1 if faults or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
