#!/usr/bin/env python3
"""usage: check_errors_page.py HORING_H PAGE: fails unless PAGE has a row and a section for each status of the header."""

import pathlib
import re
import sys

header, page = (pathlib.Path(name).read_text() for name in sys.argv[1:])
statuses = re.findall(
    r"^\s+(HO_\w+) = \d+", header[header.index("typedef enum ho_status {") : header.index("} ho_status;")], re.MULTILINE
)
titles = " ".join(re.findall(r"^### (.*)", page, re.MULTILINE)).replace(",", "").split()
missing = [name for name in statuses if name != "HO_OK" and (f"[`{name}`]" not in page or name not in titles)]
unknown = [name for name in titles if name not in statuses]
for name in missing:
    print(f"{sys.argv[2]} has no row and section of {name}")
for name in unknown:
    print(f"{sys.argv[2]} has a section of {name}, which is no status")
sys.exit(1 if missing or unknown or len(statuses) < 2 else 0)
