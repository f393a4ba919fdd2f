#!/usr/bin/env python3
"""The check of links must find planted faults."""
import contextlib
import io
import pathlib
import tempfile
import unittest

import check_links

README = "# It\n\nSee [the guide](docs/guide/start.md#two-words-here) and ![a picture](docs/one.svg).\n"
GUIDE = "# Start\n\n    $ make\n\n## Two `words`, here\n\n[back](../../README.md), [here](#start), [far](https://a.b/c)\n"


def check(readme=README, guide=GUIDE, source="// docs/guide/start.md says why; docs/guide/start too.\n"):
    """Status and what was said."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "docs" / "guide").mkdir(parents=True)
        (root / "README.md").write_text(readme)
        (root / "docs" / "guide" / "start.md").write_text(guide)
        (root / "docs" / "one.svg").write_text("<svg/>")
        (root / "source.cpp").write_text(source)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            status = check_links.main(root)
        return status, said.getvalue()


class CheckLinks(unittest.TestCase):
    def assert_refused(self, why, **pages):
        status, said = check(**pages)
        self.assertEqual(status, 1, said)
        self.assertIn(why, said)

    def test_pages_that_are_good_pass(self):
        self.assertEqual(check(), (0, "links: 2 pages, 0 problems\n"))

    def test_a_dead_link_is_found(self):
        self.assert_refused("README.md:3: docs/guide/stop.md", readme=README.replace("start.md", "stop.md"))
        self.assert_refused("docs/two.svg: there is no such file", readme=README.replace("one.svg", "two.svg"))

    def test_a_dead_anchor_is_found(self):
        self.assert_refused("no such heading", readme=README.replace("two-words-here", "three-words"))
        self.assert_refused("#end: that page has no such heading", guide=GUIDE.replace("#start", "#end"))

    def test_a_link_out_of_the_repository_is_found(self):
        self.assert_refused("lies outside", readme=README + "[up](../other)\n")

    def test_what_is_no_link_is_passed_over(self):
        status, said = check(guide=GUIDE + "\n`[a](b)`\n\n    [c](d)\n")
        self.assertEqual(status, 0, said)

    def test_long_pages_are_found(self):
        self.assert_refused("README.md: 83 lines, 80 at most", readme=README + "\n" * 80)
        self.assert_refused("start.md: 207 lines, 200 at most", guide=GUIDE + "\n" * 200)

    def test_a_guide_page_without_an_example_is_found(self):
        self.assert_refused("begins without an example", guide=GUIDE.replace("    $ make", "make"))

    def test_a_dead_path_in_a_source_is_found(self):
        self.assert_refused("source.cpp:1: docs/old.md", source="// docs/old.md has more.\n")

    def test_a_dead_path_in_a_page_is_found(self):
        self.assert_refused("start.md:9: src/old.cpp: there is no such file", guide=GUIDE + "\nIt is in `src/old.cpp`.\n")
        status, said = check(guide=GUIDE + "\nMade as build/tools/old; to be written: src/transport/quic/.\n")
        self.assertEqual(status, 0, said)


if __name__ == "__main__":
    unittest.main()
