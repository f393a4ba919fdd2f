"""Writes published tables into a C++ source: embed.py OUTPUT FILE..., of which those that end in .json."""

import json
import pathlib
import sys


def main() -> None:
    output, *files = sys.argv[1:]
    rows = []
    for table in (pathlib.Path(file) for file in files if file.endswith(".json")):
        text = table.read_text(encoding="utf-8")
        json.loads(text)  # a broken file fails the build, not the program
        rows.append(f'    EmbeddedFile{{"{table.name}", R"json({text})json"}},\n')
    pathlib.Path(output).write_text(
        '#include "cli/paro/validation/embedded.hpp"\n\n#include <array>\n\n'
        "namespace paro::tool {\n\nstd::span<const EmbeddedFile> embedded_tables() {\n"
        f"  static constexpr std::array kTables{{\n{''.join(rows)}  }};\n"
        "  return kTables;\n}\n\n}  // namespace paro::tool\n",
        encoding="utf-8",
    )


main()
