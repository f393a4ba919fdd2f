#!/usr/bin/env python3
"""The check of Python's imports must find planted circles and wrong ways, and leave the rest alone."""
import pathlib
import tempfile
import unittest

import check_imports


def check_tree(files, folder_of_all="python"):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            path = root / folder_of_all / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return check_imports.check(root)


class CheckImports(unittest.TestCase):
    def test_imports_down_the_order_pass(self):
        problems, count = check_tree({
            "horing/__init__.py": "from horing.types import DType\n",
            "horing/types.py": "import enum\n",
            "horing/torch/__init__.py": "import torch\nfrom horing import types\n",
            "paro/torch/__init__.py": "import horing\nfrom horing.torch import x\n",
        })
        self.assertEqual(problems, [])
        self.assertEqual(count, 4)

    def test_a_circle_is_found_though_only_type_checkers_see_it(self):
        for hidden in ("if TYPE_CHECKING:\n    from horing.b import B\n", "def late():\n    import horing.b\n"):
            problems, _ = check_tree({"horing/a.py": hidden, "horing/b.py": "from horing.a import A\n"})
            self.assertEqual(len(problems), 1, hidden)
            self.assertRegex(problems[0], "import each other.*horing.a.*horing.b")

    def test_an_import_up_the_order_is_named_with_its_line(self):
        problems, _ = check_tree({
            "horing/a.py": "import os\nimport torch\n",
            "horing/torch/a.py": "import paro.torch\n",
        })
        self.assertEqual(len(problems), 2)
        self.assertRegex(problems[0], r"python/horing/a\.py:2: horing may not import torch")
        self.assertRegex(problems[1], r"horing\.torch may not import paro\.torch")

    def test_an_import_of_tests_by_a_tool_is_named_whatever_its_form(self):
        problems, _ = check_tree({
            "tests/support/processes.py": "",
            "tests/support/shared.py": "",
            "tools/shared.py": "",
            "tools/bench/gains": "#!/usr/bin/env python3\nimport json\nimport processes\n",
            "tools/late.py": "def late():\n    from tests.support import x\n",
            "tools/lint": "#!/bin/bash\nimport processes\n",
            "tools/sound.py": "import shared\nfrom . import other\n",
        }, folder_of_all=".")
        self.assertEqual(len(problems), 2, problems)
        self.assertRegex(problems[0], r"tools/bench/gains:3: tools may not import processes")
        self.assertRegex(problems[1], r"tools/late\.py:2: tools may not import tests\.support")


if __name__ == "__main__":
    unittest.main()
