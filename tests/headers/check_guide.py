#!/usr/bin/env python3
"""usage: check_guide.py PROGRAM PAGE: fails unless PAGE shows PROGRAM's main(), indented."""
import difflib
import pathlib
import sys
import textwrap

program, page = (pathlib.Path(name).read_text() for name in sys.argv[1:])
main = textwrap.indent(program[program.index("int main("):], "    ")
if main not in page:
    first = main.splitlines(True)[0]
    printed = page[page.index(first):] if first in page else ""
    printed = printed.splitlines(True)[:len(main.splitlines())]
    sys.stdout.writelines(difflib.unified_diff(printed, main.splitlines(True), sys.argv[2], sys.argv[1]))
    print("The page does not show the program's main().")
    sys.exit(1)
