#!/usr/bin/env python3
"""usage: check_links.py ROOT: fails where a link of README.md or of a page below docs leads nowhere.

Looked at are links and pictures with relative targets: the file must be there, and of a page the heading that
an #anchor names. README.md has at most 80 lines and a page of docs/guide at most 200; a page of the guide begins
with an example, a block of code before its second heading. A page of docs/results has at most 100. What any file names
as docs/... must be there too (of docs/.../PREFIX, something that begins so), and so must the files and folders of the
repository that README.md and the pages name, but for those of the changelog and NEW_FILES.
"""
import pathlib
import re
import subprocess
import sys

LIMITS = {"README.md": 80, "docs/guide/": 200, "docs/results/": 100}
# What extending.md asks a reader to write.
NEW_FILES = ("src/plan/NAME.cpp", "src/transport/quic", "plugin/abi/net_v13.hpp",
             "plugin/abi/tuner_v7.hpp")
# [text](target) and ![text](target), also where the text has brackets of its own.
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
HEADING = re.compile(r"#{1,6}\s+(.*?)\s*#*$")
CODE = re.compile(r"(`+)(.+?)\1")
NAMED = re.compile(r"(?<![\w/])docs/[\w./-]*\w")
SOURCE = re.compile(r"(?<![\w./-])(?:src|plugin|runtime|python|include|tests|tools|examples)/[\w./-]*\w(?![\w./-]*\{)")


def prose(text):
    """The lines of a page that are not indented blocks, numbered from 1, without code spans."""
    block, previous = False, ""
    for number, line in enumerate(text.splitlines(), 1):
        block = (line.startswith("    ") and (block or not previous.strip())) or (
            block and not line.strip())
        previous = line
        if not block:
            yield number, CODE.sub(lambda match: " " * len(match.group(0)), line)


def anchor_of(heading):
    """As the usual renderers make it: small letters, no punctuation, a hyphen for each blank."""
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def anchors(text):
    found, seen = set(), {}
    for line in text.splitlines():
        match = HEADING.match(line)
        if match:
            anchor = anchor_of(match.group(1))
            count = seen.get(anchor, 0)
            seen[anchor] = count + 1
            found.add(f"{anchor}-{count}" if count else anchor)
    return found


def bad_links(root, page):
    text = page.read_text()
    for number, line in prose(text):
        for target in LINK.findall(line):
            if re.match(r"[a-z][a-z0-9+.-]*:", target, re.IGNORECASE):
                continue  # another host: not looked at
            name, _, anchor = target.partition("#")
            where = (page.parent / name).resolve() if name else page
            at_index = f"{page.relative_to(root)}:{number}: {target}"
            if not where.is_relative_to(root):
                yield f"{at_index}: lies outside of the repository"
            elif not where.exists():
                yield f"{at_index}: there is no such file"
            elif anchor and where.suffix == ".md" and anchor not in anchors(where.read_text()):
                yield f"{at_index}: that page has no such heading"


def too_long(root, page):
    name = str(page.relative_to(root))
    lines = len(page.read_text().splitlines())
    for begin, most in LIMITS.items():
        if name.startswith(begin) and lines > most:
            yield f"{name}: {lines} lines, {most} at most"


def without_example(root, page):
    name = str(page.relative_to(root))
    if name.startswith("docs/guide/"):
        before = page.read_text().split("\n## ")[0]
        if not re.search(r"\n\n {4}\S", before):
            yield f"{name}: begins without an example (an indented block before the second heading)"


def dead_paths(root, names):
    """Pages that other files name, as docs/reference/errors.md, which are not there."""
    for name in names:
        path = root / name
        if name.endswith(".svg") or not path.is_file():
            continue
        try:
            lines = path.read_text().splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, 1):
            for named in NAMED.findall(line):
                if not any((root / named).parent.glob((root / named).name + "*")):
                    yield f"{name}:{number}: {named}: there is no such page"


def dead_sources(root, page):
    """Files and folders that a page names and that are not there."""
    if page.name == "changelog.md":
        return
    for number, line in enumerate(page.read_text().splitlines(), 1):
        for named in SOURCE.findall(line):
            if named not in NEW_FILES and not any((root / named).parent.glob((root / named).name + "*")):
                yield f"{page.relative_to(root)}:{number}: {named}: there is no such file or folder"


def sources_of(root):
    """All tracked files; where this is no checkout, all but hidden ones and those of builds."""
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True, check=False)
    names = listed.stdout.split("\0") if listed.returncode == 0 else (
        str(path.relative_to(root)) for path in root.rglob("*")
        if not path.relative_to(root).parts[0].startswith((".", "build")))
    return sorted(name for name in names if name and "check_links" not in name)


def pages_of(root):
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def problems_of(root):
    found = []
    for page in pages_of(root):
        for check in (bad_links, too_long, without_example, dead_sources):
            found += check(root, page)
    return found + list(dead_paths(root, sources_of(root)))


def main(root):
    root = pathlib.Path(root).resolve()
    found = problems_of(root)
    print("".join(problem + "\n" for problem in found), end="")
    print(f"links: {len(pages_of(root))} pages, {len(found)} problems")
    return 1 if found or len(pages_of(root)) < 2 else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
