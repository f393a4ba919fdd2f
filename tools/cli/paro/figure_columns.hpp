// Every figure of a plan, a row for each strategy. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/subcommands/table.hpp"
#include "planner/text/answer.hpp"

namespace paro::tool {

// For people, rounded and in units that suit all rows; or for programs, in bytes and seconds, which
// the heads say.
enum class Precise : uint8_t { kNo, kYes };

struct FigureColumns {
  std::vector<ho::Column> columns;
  std::string memory_unit;  // of people's figures: "GB"
  std::string time_unit;
};
[[nodiscard]] FigureColumns figure_columns(const Report& report, Precise precise);

struct TextUnit {
  std::string name;
  double size;
};
[[nodiscard]] TextUnit memory_unit(double largest_bytes);
[[nodiscard]] TextUnit time_unit(double longest_s);

// Of so many digits behind the point, but short where the figure cannot be meant.
[[nodiscard]] std::string figure_text(double value, int digits);

}  // namespace paro::tool
