// Text in aligned columns. Pure.
#pragma once

#include <string>
#include <vector>

namespace paro::tool {

struct Column {
  std::string head;
  bool left = false;  // aligned to the left
  std::vector<std::string> cells;
};

// Lines without trailing blanks; all columns have equally many cells.
[[nodiscard]] std::string aligned(const std::vector<Column>& columns);

}  // namespace paro::tool
