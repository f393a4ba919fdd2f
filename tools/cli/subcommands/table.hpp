// Text in aligned columns, and the cells of them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ho {

struct Column {
  std::string head;
  bool left = false;  // aligned to the left
  std::vector<std::string> cells;
};

// A column of a table about items: its head, and what it says of an item.
template <typename Item>
struct Field {
  const char* head;
  bool left;
  std::string (*cell)(const Item& item);
};

template <typename Item>
[[nodiscard]] Column column_of(const Field<Item>& field, const std::vector<Item>& items) {
  Column column{field.head, field.left, {}};
  for (const Item& item : items) {
    column.cells.push_back(field.cell(item));
  }
  return column;
}

template <typename Fields, typename Items>
[[nodiscard]] std::vector<Column> columns_of(const Fields& fields, const Items& items) {
  std::vector<Column> columns;
  for (const auto& field : fields) {
    columns.push_back(column_of(field, items));
  }
  return columns;
}

// Without cells; `sides` has a letter for each head: 'l' is aligned to the left, 'r' to the right.
[[nodiscard]] std::vector<Column> headed(std::string_view sides,
                                         const std::vector<std::string>& heads);
// A cell for each column.
void add_row(std::vector<Column>& columns, std::vector<std::string> cells);

// Lines without trailing blanks, each behind `indent`; all columns have equally many cells.
[[nodiscard]] std::string aligned(const std::vector<Column>& columns,
                                  const std::string& indent = "");

[[nodiscard]] std::string fixed(double value, int digits);  // "3.14"
[[nodiscard]] std::string milliseconds(double seconds);     // "12.3"
[[nodiscard]] std::string megabytes(uint64_t bytes);        // "1.25"

}  // namespace ho
