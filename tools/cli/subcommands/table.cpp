#include "cli/subcommands/table.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace ho {
namespace {

size_t width_of(const Column& column) {
  size_t width = column.head.size();
  for (const std::string& cell : column.cells) {
    width = std::max(width, cell.size());
  }
  return width;
}

}  // namespace

std::vector<Column> headed(std::string_view sides, const std::vector<std::string>& heads) {
  std::vector<Column> columns;
  for (size_t i = 0; i < heads.size(); ++i) {
    columns.push_back({heads[i], sides.at(i) == 'l', {}});
  }
  return columns;
}

void add_row(std::vector<Column>& columns, std::vector<std::string> cells) {
  for (size_t i = 0; i < columns.size(); ++i) {
    columns[i].cells.push_back(std::move(cells.at(i)));
  }
}

std::string aligned(const std::vector<Column>& columns, const std::string& indent) {
  std::string text;
  const size_t rows = columns.empty() ? 0 : columns.front().cells.size() + 1;
  for (size_t row = 0; row < rows; ++row) {  // row 0 is the head
    std::string line = indent;
    for (const Column& column : columns) {
      const std::string& cell = row == 0 ? column.head : column.cells[row - 1];
      const std::string padding(width_of(column) - cell.size(), ' ');
      line += (column.left ? cell + padding : padding + cell) + "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string fixed(double value, int digits) {
  return fmt::format("{:.{}f}", value, digits);
}

std::string milliseconds(double seconds) {
  return fixed(seconds * 1e3, 1);
}

std::string megabytes(uint64_t bytes) {
  return fixed(static_cast<double>(bytes) / 1e6, 2);
}

}  // namespace ho
