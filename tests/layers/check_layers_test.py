#!/usr/bin/env python3
"""The layer check must find planted violations and leave permitted edges alone."""
import json
import pathlib
import tempfile
import unittest

import check_layers

TABLE = json.loads((pathlib.Path(__file__).parent / "layers.json").read_text())


def check_tree(files):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return check_layers.check(root, TABLE)


TREE = {
    "include/horing.h": "",
    "include/horing/communicator.hpp": "#include <horing.h>\n",
    "src/base/status.hpp": "",
    "src/group/group_map.hpp": '#include "base/status.hpp"\n',
    "src/plan/plan.hpp": '#include "group/group_map.hpp"\n',
    "src/transport/tcp/link.hpp": '#include "transport/transport.hpp"\n',
    "src/transport/transport.hpp": "#include <vector>\n",
    "tools/cli/plan/main.cpp": '#include "plan/plan.hpp"\n',
}


class CheckLayers(unittest.TestCase):
    def test_edges_of_the_table_pass(self):
        violations, count = check_tree(TREE)
        self.assertEqual(violations, [])
        self.assertEqual(count, 5)

    def test_planted_violations_are_found(self):
        planted = {
            "src/base/bad.hpp": '#include "group/group_map.hpp"\n',
            "src/group/bad.cpp": '#include <plan/plan.hpp>\n',
            "src/transport/tcp/bad.cpp": '  #  include "plan/plan.hpp"\n',
            "src/plan/bad.cpp": '#include "horing.h"\n',
            "src/exec/bad.cpp": '#include "../../tools/cli/run/x.hpp"\n',
            "src/comm/bad.cpp": '#include "cli/run/x.hpp"\n',
            "include/horing/bad.hpp": '#include "base/status.hpp"\n#include "plan/plan.hpp"\n',
        }
        for name, text in planted.items():
            with self.subTest(name):
                violations, _ = check_tree({**TREE, "tools/cli/run/x.hpp": "", name: text})
                self.assertTrue(violations)
                self.assertTrue(all(v.startswith(name + ":") for v in violations), violations)

    def test_a_folder_may_not_use_what_lies_below_it_unless_its_row_says_so(self):
        below = {"plugin/core/rail/rail.hpp": "", "plugin/core/bad.cpp": '#include "core/rail/rail.hpp"\n'}
        violations, _ = check_tree({**TREE, **below})
        self.assertEqual(len(violations), 1)

    def test_public_headers_see_no_internal_ones(self):
        violations, _ = check_tree({**TREE, "include/horing.h": '#include "../src/base/status.hpp"\n'})
        self.assertEqual(len(violations), 1)

    def test_a_folder_outside_the_table_is_refused(self):
        violations, _ = check_tree({**TREE, "src/misc/thing.hpp": ""})
        self.assertEqual(violations, ["src/misc/thing.hpp: its folder is not in layers.json"])

    def test_the_table_has_no_cycle(self):
        folders = TABLE["folders"]

        def reach(folder, path):
            self.assertNotIn(folder, path, "cycle")
            for used in folders.get(folder, {"uses": []})["uses"]:
                reach(used, [*path, folder])

        for folder in folders:
            reach(folder, [])


if __name__ == "__main__":
    unittest.main()
