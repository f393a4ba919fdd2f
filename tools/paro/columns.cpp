#include "paro/columns.hpp"

#include <algorithm>

namespace paro::tool {
namespace {

size_t width_of(const Column& column) {
  size_t width = column.head.size();
  for (const std::string& cell : column.cells) {
    width = std::max(width, cell.size());
  }
  return width;
}

void add_cell(std::string& line, const std::string& cell, size_t width, bool left) {
  const std::string padding(width - cell.size(), ' ');
  line += (line.empty() ? "" : "  ") + (left ? cell + padding : padding + cell);
}

}  // namespace

std::string aligned(const std::vector<Column>& columns) {
  if (columns.empty()) {
    return {};
  }
  std::string text;
  const size_t rows = columns.front().cells.size();
  // Row 0 is the head.
  for (size_t row = 0; row <= rows; ++row) {
    std::string line;
    for (const Column& column : columns) {
      const std::string& cell = row == 0 ? column.head : column.cells[row - 1];
      add_cell(line, cell, width_of(column), column.left);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace paro::tool
