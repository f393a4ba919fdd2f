#!/usr/bin/env python3
"""usage: check_change.py BEFORE AFTER PAGE: fails unless PAGE says how many lines `diff BEFORE AFTER` has, and the
lines with - and + that it shows are among them, in their order."""
import pathlib
import re
import subprocess
import sys

before, after, page = sys.argv[1:]
difference = subprocess.run(["diff", before, after], stdout=subprocess.PIPE, text=True, check=False).stdout.splitlines()
changed = [(line[0], line[2:].strip()) for line in difference if line[:1] in ("<", ">")]
counts = [sum(mark == each for mark, _ in changed) for each in "<>"]
text = pathlib.Path(page).read_text()
said = re.search(r"(\d+) lines go,\s+(\d+) come", text)
failed = said is None or [int(number) for number in said.groups()] != counts
if failed:
    print(f"{page} says '{said and said.group()}': {counts[0]} lines go, {counts[1]} come")
listed = [("<>"["-+".index(line[4])], line[5:].strip()) for line in text.splitlines() if re.match("    [-+] ", line)]
at = 0
for each in listed:
    if each not in changed[at:]:
        failed = True
        print(f"{page} shows '{each[1]}', which is not in `diff {before} {after}`, or not after what is listed before it")
    else:
        at = changed.index(each, at) + 1
if len(listed) < 5:
    failed = True
    print(f"{page} shows {len(listed)} of the {len(changed)} changed lines")
sys.exit(failed)
