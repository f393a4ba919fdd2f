// A table of fixed columns whose lines are printed while it is measured, as nccl-tests prints.
// Pure. Tables that are printed when all of them is known: cli/subcommands/table.hpp.
#pragma once

#include <array>
#include <span>
#include <string>

namespace ho::harness {

struct FixedColumn {
  const char* head;
  const char* unit;
  size_t width;
};

// A text for each column, aligned to the right behind a blank.
[[nodiscard]] std::string line_of(std::span<const FixedColumn> columns,
                                  std::span<const std::string> texts);
[[nodiscard]] std::string heads_of(std::span<const FixedColumn> columns);
[[nodiscard]] std::string units_of(std::span<const FixedColumn> columns);

// What stands before the figures: nccl-tests' columns, the last of which is another one here and
// there.
[[nodiscard]] std::array<FixedColumn, 5> case_columns(const char* last);

}  // namespace ho::harness
