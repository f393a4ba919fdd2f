#!/usr/bin/env python3
"""usage: check_environment_page.py HORING PAGE: fails unless PAGE is what the program prints."""
import difflib
import pathlib
import subprocess
import sys

program, page = sys.argv[1:]
printed = subprocess.run([program, "env", "--markdown"], capture_output=True, text=True, check=True)
written = pathlib.Path(page).read_text()
if printed.stdout != written:
    sys.stdout.writelines(difflib.unified_diff(
        written.splitlines(True), printed.stdout.splitlines(True), page, "horing env --markdown"))
    print("The page is old. Run: build/tools/horing env --markdown > docs/reference/environment.md")
    sys.exit(1)
