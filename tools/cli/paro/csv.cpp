#include <spdlog/fmt/fmt.h>

#include <string>
#include <string_view>
#include <vector>

#include "cli/paro/figure_columns.hpp"
#include "cli/paro/report.hpp"

namespace paro::tool {
namespace {

// RFC 4180
std::string field_text(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    return std::string(text);
  }
  std::string quoted = "\"";
  for (const char letter : text) {
    quoted += letter == '"' ? "\"\"" : std::string(1, letter);
  }
  return quoted + "\"";
}

std::string csv_of(const std::vector<ho::Column>& columns) {
  std::string text;
  const auto add_line = [&](auto cell) {
    for (size_t at = 0; at < columns.size(); ++at) {
      text += (at == 0 ? "" : ",") + field_text(cell(columns[at]));
    }
    text += "\n";
  };
  add_line([](const ho::Column& column) { return column.head; });
  for (size_t row = 0; row < columns.front().cells.size(); ++row) {
    add_line([&](const ho::Column& column) { return column.cells[row]; });
  }
  return text;
}

std::string optional_text(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : "";
}

}  // namespace

std::string csv_text(const Report& report) {
  return csv_of(figure_columns(report, Precise::kYes).columns);
}

std::string csv_text(const Sweep& sweep) {
  std::vector<ho::Column> columns{{sweep.option, false, {}},
                                  {"strategy", false, {}},
                                  {"known as", false, {}},
                                  {"tokens/s", false, {}},
                                  {"MFU", false, {}},
                                  {"step (s)", false, {}},
                                  {"need (bytes)", false, {}},
                                  {"missing (bytes)", false, {}},
                                  {"exposed (s)", false, {}}};
  for (const SweepRow& row : sweep.rows) {
    const StrategyFigures& best = row.best();
    const PlanOptions& options = row.report.options;
    ho::add_row(columns,
                {row.value,
                 letters(best.strategy),
                 known_as_text(best.strategy),
                 optional_text(options.tokens_per_s(best.time.step_s)),
                 optional_text(options.mfu(best.time.step_s)),
                 fmt::format("{}", best.time.step_s),
                 fmt::format("{}", best.memory.total()),
                 fmt::format("{}", best.missing_bytes),
                 fmt::format("{}", best.time.exposed_s)});
  }
  return csv_of(columns);
}

}  // namespace paro::tool
