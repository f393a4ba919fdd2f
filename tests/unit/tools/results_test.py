#!/usr/bin/env python3
"""Pages of results must be what the rows in their files give."""

import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TOOL = pathlib.Path(__file__).parents[3] / "tools" / "results"
LOADER = importlib.machinery.SourceFileLoader("results", str(TOOL))
results = importlib.util.module_from_spec(importlib.util.spec_from_loader("results", LOADER))
LOADER.exec_module(results)

ROWS = 'system,NICs,step ms\nours,4,12.5\nours,1,\n"theirs, all",4,20\n'
PAGE = (
    "# How fast?\n\n<!-- table data/steps.csv | system | step ms | where NICs = 4 -->\n| old |\n<!-- end of table -->\n\n"
    "![steps](steps.svg)\n<!-- picture steps.svg | bars of data/steps.csv | system | step ms | sorted | where NICs = 4 -->\n"
)
TABLE = "| system | step ms |\n|---|---|\n| ours | 12.5 |\n| theirs, all | 20 |\n<!-- end of table -->"


class Results(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name, "results")
        (self.folder / "data").mkdir(parents=True)
        (self.folder / "data" / "steps.csv").write_text(ROWS)
        (self.folder / "steps.svg").write_text("<svg/>")
        self.page = self.folder / "page.md"
        self.page.write_text(PAGE)

    def run_tool(self, *options):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            return results.main([*options, "--folder", str(self.folder)]), said.getvalue()

    def assert_refused(self, why):
        status, said = self.run_tool("--check")
        self.assertEqual(status, 1)
        self.assertIn(why, said)

    def test_a_table_has_the_rows_and_columns_that_its_page_names(self):
        self.assertEqual(self.run_tool("--no-pictures")[0], 0)
        self.assertIn(TABLE, self.page.read_text())
        self.assertEqual(self.run_tool("--check")[0], 0)

    def test_an_empty_cell_is_printed_as_a_dash(self):
        self.page.write_text(PAGE.replace("NICs = 4 -->\n| old", "NICs = 1 -->\n| old"))
        self.run_tool("--no-pictures")
        self.assertIn("| ours | - |", self.page.read_text())

    def test_a_figure_that_was_changed_by_hand_is_found(self):
        self.run_tool("--no-pictures")
        self.page.write_text(self.page.read_text().replace("| 12.5 |", "| 11.5 |"))
        self.assert_refused("a table is not what its file has")

    def test_a_picture_that_is_not_there_is_found(self):
        self.run_tool("--no-pictures")
        (self.folder / "steps.svg").unlink()
        self.assert_refused("steps.svg is not there")

    def test_columns_and_rows_that_a_file_lacks_are_found(self):
        for old, new, why in (
            ("| step ms | where", "| speed | where", "no column 'speed'"),
            ("NICs = 4", "NICs = 3", "no row"),
        ):
            self.page.write_text(PAGE.replace(old, new))
            self.assert_refused(why)

    @unittest.skipIf(results.picture.lacking(), results.picture.lacking())
    def test_each_kind_of_picture_has_its_labels(self):
        (self.folder / "data" / "sizes.csv").write_text(
            "size,ms,library\n1 KiB,1,ours\n1 MiB,20,ours\n1 KiB,2,limit\n1 MiB,30,limit\n"
        )
        for what, label in (
            ("bars of data/steps.csv | system | step ms | where NICs = 4", "theirs, all"),
            ("points of data/steps.csv | system | NICs | step ms | where NICs = 4", "ours"),
            ("lines of data/sizes.csv | size | ms | library | title a size", "1 MiB"),
        ):
            self.page.write_text(f"![steps](steps.svg)\n<!-- picture steps.svg | {what} -->\n")
            self.assertEqual(self.run_tool()[0], 0)
            self.assertIn(f">{label}<", (self.folder / "steps.svg").read_text())

    def test_rows_that_no_page_shows_are_found(self):
        self.run_tool("--no-pictures")
        (self.folder / "data" / "more.csv").write_text(ROWS)
        self.assert_refused("data/more.csv: no page names it")


if __name__ == "__main__":
    unittest.main()
