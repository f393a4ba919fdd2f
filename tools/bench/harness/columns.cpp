#include "bench/harness/columns.hpp"

#include <vector>

namespace ho::harness {
namespace {

std::string each_of(std::span<const FixedColumn> columns, const char* FixedColumn::*what) {
  std::vector<std::string> texts;
  for (const FixedColumn& column : columns) {
    texts.emplace_back(column.*what);
  }
  return line_of(columns, texts);
}

}  // namespace

std::string line_of(std::span<const FixedColumn> columns, std::span<const std::string> texts) {
  std::string line;
  for (size_t i = 0; i < columns.size(); ++i) {
    const size_t length = texts[i].size();
    line += std::string(columns[i].width > length ? columns[i].width - length + 1 : 1, ' ');
    line += texts[i];
  }
  return line;
}

std::string heads_of(std::span<const FixedColumn> columns) {
  return each_of(columns, &FixedColumn::head);
}

std::string units_of(std::span<const FixedColumn> columns) {
  return each_of(columns, &FixedColumn::unit);
}

std::array<FixedColumn, 5> case_columns(const char* last) {
  return {{{"size", "(B)", 11},
           {"count", "(elements)", 12},
           {"type", "", 10},
           {"redop", "", 6},
           {last, "", 6}}};
}

}  // namespace ho::harness
