#!/usr/bin/env python3
"""Texts, tables, and files that are refused."""
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parents[5] / "tools" / "bench"))
# pylint: disable=wrong-import-position
from measure import report  # noqa: E402


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_sizes_are_read_and_printed_with_units(self):
        for text, size, printed in (("8", 8, "8 B"), ("4k", 4096, "4 KiB"), (" 16M", 16 << 20, "16 MiB"),
                                    ("2G", 2 << 30, "2 GiB"), ("1500", 1500, "1500 B")):
            self.assertEqual(report.parse_bytes(text), size)
            self.assertEqual(report.bytes_text(size), printed)
        self.assertEqual(report.parse_sizes("8,64K"), (8, 65536))
        for wrong in ("", "8,", "0", "-4K", "4X", "K", "1.5M"):
            with self.assertRaises(ValueError, msg=wrong):
                report.parse_sizes(wrong)

    def test_times_are_printed_with_units(self):
        for time, printed in ((12.34, "12.3 us"), (1234, "1.23 ms"), (123456, "123 ms"), (2.5e6, "2.500 s")):
            self.assertEqual(report.time_text(time), printed)
        self.assertEqual([report.axis_time_text(10.0**power) for power in (0, 3, 7)], ["1 us", "1 ms", "10 s"])

    def test_tables_are_printed_aligned(self):
        self.assertEqual(report.table(("a", "b"), [(1, "x")]), ["| a | b |", "|---|---|", "| 1 | x |"])
        self.assertEqual(report.text_table(("name", "ms"), [("a", "10.5"), ("long one", "2")]),
                         ["name        ms", "--------------", "a         10.5", "long one     2"])

    def test_files_of_measurements_are_read_back_or_refused(self):
        path = self.folder / "run.json"
        report.save(path, {"results": [1], "run": {}})
        self.assertEqual(report.load(path, ("results", "run"), "tools/x"), {"results": [1], "run": {}})
        for text in ("", "{", "[]", '{"run": {}}', "null"):
            path.write_text(text)
            with self.assertRaisesRegex(SystemExit, "run.json is not what tools/x has measured .*measure anew"):
                report.load(path, ("results", "run"), "tools/x")
        with self.assertRaisesRegex(SystemExit, "No such file"):
            report.load(self.folder / "none.json", (), "tools/x")

    def test_folders_of_reports_are_made(self):
        self.assertEqual(report.folder_for(self.folder / "new" / "a.md", "--out"), "")
        self.assertTrue((self.folder / "new").is_dir())
        (self.folder / "file").write_text("")
        self.assertRegex(report.folder_for(self.folder / "file" / "a.md", "--out"), "^--out: ")


if __name__ == "__main__":
    unittest.main()
