#!/usr/bin/env python3
"""The check of printed examples must find planted faults, and count every block."""
import contextlib
import io
import pathlib
import tempfile
import unittest

import check_printed_examples

GOOD = """# Page

    $ paro plan --layers 2 \\
        --nodes 3
    plan --layers 2
      --nodes 3

    end

Then:

<!-- illustration: measured -->

    $ paro train
    12.5 ms

or:

    paro train --steps 3
    paro train --steps 4

    $ build/tools/paro train    # nothing is shown of it
"""


def check(text, *options):
    """Status, what was said, and the page afterwards, for a paro that prints its arguments."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "paro")
        program.write_text('#!/bin/sh\necho "$1 $2 $3"; echo "  $4 $5"; echo; echo end\n')
        program.chmod(0o755)
        pages = pathlib.Path(folder, "pages")
        pages.mkdir()
        page = pages / "page.md"
        page.write_text(text)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            status = check_printed_examples.main([*options, str(program), "--", str(pages)])
        return status, said.getvalue(), page.read_text()


class CheckPrintedExamples(unittest.TestCase):
    def assert_refused(self, text, why):
        status, said, _ = check(text)
        self.assertEqual(status, 1, said)
        self.assertIn(why, said)

    def test_a_good_page_passes_and_its_blocks_are_counted(self):
        status, said, _ = check(GOOD)
        self.assertEqual(status, 0, said)
        self.assertIn("1 blocks compared, 1 illustrations, 1 of input", said)

    def test_two_blocks_that_text_parts_are_two(self):
        _, said, _ = check(GOOD.replace("    $ build", "or:\n\n    $ build"))
        self.assertIn("1 blocks compared, 1 illustrations, 2 of input", said)

    def test_what_is_stale_is_found_and_mended(self):
        stale = GOOD.replace("      --nodes 3\n\n    end", "      --nodes 4\n\n    end\n    more")
        self.assert_refused(stale, "+      --nodes 3")
        status, _, mended = check(stale, "--write")
        self.assertEqual((status, mended), (0, GOOD))

    def test_output_without_a_mark_is_found(self):
        self.assert_refused(GOOD.replace("<!-- illustration: measured -->\n\n", ""), "1 examples differ")
        self.assert_refused(GOOD.replace("$ paro train\n    12", "12 steps\n    12").replace(
            "<!-- illustration: measured -->\n\n", ""), ":12: this block is neither a command")

    def test_output_of_another_program_wants_a_mark(self):
        self.assert_refused(GOOD + "\nAlso:\n\n    $ tools/bench/gains\n    fast\n", "has what gains prints")

    def test_a_mark_before_no_block_is_found(self):
        self.assert_refused(GOOD + "\n<!-- illustration: measured -->\n", "stands before no block")

    def test_a_fence_is_found(self):
        self.assert_refused(GOOD + "\n```\nfast\n```\n", "indent it by 4")

    def test_pages_with_nothing_to_compare_are_found(self):
        self.assert_refused("# Page\n\n    paro train\n", "is the pattern wrong?")


if __name__ == "__main__":
    unittest.main()
