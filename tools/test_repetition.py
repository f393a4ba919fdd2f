#!/usr/bin/env python3
"""Which failures of tests are worth another run: chance ones, as a machine that is too slow or short of something
makes them (docs/design/adr/0028-repetition-of-tests.md).

usage: test_repetition.py LOG             of each failed test of a meson log (one JSON value a line) a line:
                                          "repeat NAME" or "final NAME: WHY"
       test_repetition.py STATUS OUTPUT   the same of one command, without its name

A failure is final unless everything in its output shows that it is a chance one. So a new kind of failure, a new
format and an output that is not understood are final.
"""
import json
import re
import sys
from pathlib import Path

# A deadline that far away is there for hangs: whoever reaches it hangs.
HANG_S = 60

# Whatever else is in the output.
FINAL = {
    "a sanitizer's report": re.compile(
        r"(?:Address|Leak|Memory|Thread|UndefinedBehavior)Sanitizer|: runtime error: |DEADLYSIGNAL"),
    "a crash": re.compile(
        r"due to a fatal error condition|terminate called|Segmentation fault|core dumped|Fatal Python error|"
        r"stack smashing|free\(\): |malloc\(\): |double free|Assertion `|\bAborted\b|Bus error|Illegal instruction"),
}

# What an error says that comes of a slow machine, or of one that is short of something.
CHANCE = re.compile(
    r"did not complete within|came within \d+ ms|(?:before|within) the deadline|did not finish its handshake within|"
    r"nobody connected to .* within|(?:was|were) not there in time|sent nothing over UCX in time|"
    r"[Tt]imed out|(?:^|[\s\"(])timeout: |"
    r"Connection refused|Address already in use|Cannot assign requested address|"
    r"Resource temporarily unavailable|Too many open files|Cannot allocate memory|No space left on device|"
    r"cannot set up", re.MULTILINE)
LIMIT = re.compile(r"(?:within|after) (\d+(?:\.\d+)?) ?(ms|s|seconds)\b")

# ho_status: the deadline; and what other ranks of the same job hear of it, or the system said.
HO_TIMEOUT = 3
HO_CONSEQUENCES = (4, 5, 6, 10)  # HO_ABORTED, HO_PEER_LOST, HO_CONNECTION, HO_SYSTEM

CATCH_FAILED = re.compile(r"^\S.*:\d+: FAILED:$", re.MULTILINE)
CATCH_COUNT = re.compile(r"^assertions: .*?(\d+) failed", re.MULTILINE)
UNITTEST_FAILED = re.compile(r"^(?:ERROR|FAIL): .*$", re.MULTILINE)
UNITTEST_COUNT = re.compile(r"^FAILED \((.*)\)$", re.MULTILINE)
PYTEST_FAILED = re.compile(r"^_{3,} .+ _{3,}$", re.MULTILINE)
PYTEST_COUNT = re.compile(r"^=+ (.*) in \d[\d.]*s\b.* =+$", re.MULTILINE)
PYTEST_LIST = re.compile(r"^=+ short test summary info =+$", re.MULTILINE)  # comes after what failed
RULE = re.compile(r"^(?:-{60,}|={60,}|\.{60,})$", re.MULTILINE)  # ends what Catch2 says of an assertion
EXCEPTION = re.compile(r"^(?:[a-zA-Z_][\w.]*\.)?([A-Z]\w*(?:Error|Exception|Failed|Expired|Interrupt|Exit))(?::|$) ?",
                       re.MULTILINE)
RANKS_THAT_FAILED = "RanksFailed"  # tests/torch_backend/ranks.py: around what each rank raised
# Ends the text of an exception: the source lines of the next one's traceback are none of it.
NEXT_TRACEBACK = re.compile(r"^(?:During handling of|The above exception was|.*Traceback \(most recent)", re.MULTILINE)
SCRIPT_FAILED = re.compile(r"^FAIL\b.*$", re.MULTILINE)


def is_hang(text: str) -> bool:
    """Whether a limit that it names is one for hangs."""
    return any(float(number) / (1000 if unit == "ms" else 1) >= HANG_S for number, unit in LIMIT.findall(text))


def is_chance_text(text: str) -> bool:
    return CHANCE.search(text) is not None and not is_hang(text)


def after_each(heads: list[re.Match[str]], text: str) -> list[str]:
    """What follows each head, until the next one."""
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return [text[head.end():end] for head, end in zip(heads, ends, strict=False)]  # no head: an end too many


def is_chance_assertion(block: str) -> bool:
    """Of Catch2: an exception, or an error where there should be none, that says so. No value is one."""
    if "due to unexpected exception with message" in block:
        return is_chance_text(block)
    expression, _, rest = block.partition("with expansion:")
    if "&&" in expression or "||" in expression or re.search(r"\(\s*!", expression):
        return False
    if re.search(r"== HO_OK\s*\)\s*$", expression):
        status = re.match(r"\s*(\d+)\s*==\s*0\s", rest + "\n")
        number = int(status[1]) if status else None
        return (number == HO_TIMEOUT and not is_hang(rest)) or (number in HO_CONSEQUENCES and is_chance_text(rest))
    if re.search(r'(?:== ""|(?:\.|->)ok\(\))\s*\)\s*$', expression):
        return is_chance_text(rest)
    return False


def is_chance_section(block: str) -> bool:
    """Of unittest, and of pytest with --tb=native: every exception in it, those of other processes too, says so."""
    found = list(EXCEPTION.finditer(block))
    texts = (NEXT_TRACEBACK.split(text)[0] for text in after_each(found, block))
    exceptions = zip((each[1] for each in found), texts, strict=True)
    raised = [(kind, text) for kind, text in exceptions if kind != RANKS_THAT_FAILED]
    if re.search(r"rank \d+: (?:no result after|the process ended)", block):
        return False
    return bool(raised) and all(is_chance_exception(kind, text) for kind, text in raised)


def is_chance_exception(kind: str, text: str) -> bool:
    if kind == "AssertionError":  # a program that should have ended with status 0, and said why it did not
        status = re.match(r"(\d+) != 0 : ", text) or re.search(
            r"^assert (\d+) == 0\n +\+ +where \1 = .*\.returncode$", text, re.MULTILINE)
        return status is not None and 0 < int(status[1]) < 128 and is_chance_text(text)
    if kind in ("TimeoutError", "ConnectionRefusedError"):
        return not is_hang(text)
    return is_chance_text(text)


def why_final(status: int, output: str) -> str:
    """Empty where the failure is a chance one."""
    if not 0 < status < 128:
        return f"status {status}"
    for what, pattern in FINAL.items():
        if pattern.search(output):
            return what
    judged = []
    heads = list(CATCH_FAILED.finditer(output))
    counts = [int(number) for number in CATCH_COUNT.findall(output)]
    if heads or counts:
        if counts != [len(heads)]:
            return "not every failed assertion is in the output"
        judged += [is_chance_assertion(RULE.split(block)[0]) for block in after_each(heads, output)]
    heads = list(UNITTEST_FAILED.finditer(output))
    counts = [sum(map(int, re.findall(r"(?:failures|errors)=(\d+)", text))) for text in UNITTEST_COUNT.findall(output)]
    if heads or counts:
        if counts != [len(heads)]:
            return "not every failed test is in the output"
        judged += [is_chance_section(block) for block in after_each(heads, output)]
    heads = list(PYTEST_FAILED.finditer(output))
    counts = [sum(map(int, re.findall(r"(\d+) (?:failed|errors?)\b", text))) for text in PYTEST_COUNT.findall(output)]
    if heads or sum(counts):
        if counts != [len(heads)]:
            return "not every failed test is in the output"
        judged += [is_chance_section(PYTEST_LIST.split(block)[0]) for block in after_each(heads, output)]
    judged += ["cannot set up" in line for line in SCRIPT_FAILED.findall(output) if not UNITTEST_FAILED.match(line)]
    if not judged:
        return "nothing in the output says what failed"
    return "" if all(judged) else "a wrong value, or an error that no slow machine explains"


def why_final_of_test(test: dict) -> str:
    if test["result"] != "FAIL":
        return f"{test['result']}, which is never repeated"
    return why_final(test["returncode"], test.get("stdout", "") + "\n" + test.get("stderr", ""))


def main() -> None:
    if len(sys.argv) == 3:
        why = why_final(int(sys.argv[1]), Path(sys.argv[2]).read_text(errors="replace"))
        print(f"final: {why}" if why else "repeat")
        return
    for line in Path(sys.argv[1]).read_text().splitlines():
        test = json.loads(line)
        if test["result"] in ("OK", "EXPECTEDFAIL", "SKIP", "IGNORED"):
            continue
        why = why_final_of_test(test)
        name = re.split("[: ]", test["name"])[-1]
        print(f"final {name}: {why}" if why else f"repeat {name}")


if __name__ == "__main__":
    main()
