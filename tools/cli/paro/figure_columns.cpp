#include "cli/paro/figure_columns.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace paro::tool {
namespace {

class Columns {
 public:
  Columns(const Report& report, Precise precise)
      : report_(report), rows_(report.recommendation.figures), precise_(precise == Precise::kYes) {
    double bytes = 0;
    double seconds = 0;
    for (const StrategyFigures& row : rows_) {
      bytes = std::max(bytes, row.memory.total());
      seconds = std::max(seconds, row.time.step_s);
    }
    memory_ = memory_unit(bytes);
    time_ = time_unit(seconds);
  }

  FigureColumns all() && {
    if (precise_) {
      add("order", false, [&](const StrategyFigures& row) { return order(row); });
    } else {
      add("", true, [&](const StrategyFigures& row) { return mark(row); });
    }
    add("strategy", true, [](const StrategyFigures& row) { return letters(row.strategy); });
    if (sequences() > 0) {
      add("batch", false, [&](const StrategyFigures& row) {
        return fmt::format("{}x{}", sequences() / row.micro_batches, row.micro_batches);
      });
    }
    add_memory();
    add_time();
    add_speed();
    add_cost();
    add("known as", true, [](const StrategyFigures& row) { return known_as_text(row.strategy); });
    return {std::move(columns_), memory_.name, time_.name};
  }

 private:
  // Of a rank, in micro-batches that each strategy has chosen; 0: all have the same.
  [[nodiscard]] uint32_t sequences() const { return report_.options.request.sequences; }

  template <typename Cell>
  void add(std::string head, bool left, Cell cell) {
    ho::Column column{std::move(head), left, {}};
    for (const StrategyFigures& row : rows_) {
      column.cells.push_back(cell(row));
    }
    columns_.push_back(std::move(column));
  }

  template <typename Value>
  void add_number(const std::string& head, int digits, Value value) {
    add(head, false, [&](const StrategyFigures& row) {
      return precise_ ? fmt::format("{}", value(row)) : figure_text(value(row), digits);
    });
  }

  template <typename Value>
  void add_bytes(const std::string& head, Value value) {
    const double unit = precise_ ? 1 : memory_.size;
    add_number(head + (precise_ ? " (bytes)" : ""), 2, [&](const StrategyFigures& row) {
      return value(row.memory) / unit;
    });
  }

  template <typename Value>
  void add_seconds(const std::string& head, Value value) {
    const double unit = precise_ ? 1 : time_.size;
    add_number(head + (precise_ ? " (s)" : ""), 3, [&](const StrategyFigures& row) {
      return value(row.time) / unit;
    });
  }

  void add_memory() {
    add_bytes("params", [](const MemoryNeed& need) { return need.states.parameters; });
    add_bytes("grads", [](const MemoryNeed& need) { return need.states.gradients; });
    add_bytes("optim", [](const MemoryNeed& need) { return need.states.optimizer; });
    add_bytes("states", [](const MemoryNeed& need) { return need.states.total(); });
    add_bytes("buffers",
              [](const MemoryNeed& need) { return need.gathered + need.gradient_buffers; });
    add_bytes("activ", [](const MemoryNeed& need) { return need.activations; });
    if (report_.options.request.reserve_bytes > 0) {
      add_bytes("reserve", [](const MemoryNeed& need) { return need.reserve; });
    }
    add_bytes("need", [](const MemoryNeed& need) { return need.total(); });
    if (precise_) {
      add_number(
          "missing (bytes)", 0, [](const StrategyFigures& row) { return row.missing_bytes; });
      return;
    }
    add("fits", false, [&](const StrategyFigures& row) {
      return row.fits()
                 ? "yes"
                 : fmt::format(
                       "-{} {}", figure_text(row.missing_bytes / memory_.size, 2), memory_.name);
    });
  }

  void add_time() {
    add_seconds("param", [](const StepTime& time) { return time.terms.parameters; });
    add_seconds("gradient", [](const StepTime& time) { return time.terms.gradients; });
    add_seconds("sync-g", [](const StepTime& time) { return time.terms.sync_g; });
    add_seconds("sync-p", [](const StepTime& time) { return time.terms.sync_p; });
    add_seconds("comm", [](const StepTime& time) { return time.communication_s; });
    add_seconds("exposed", [](const StepTime& time) { return time.exposed_s; });
    add_seconds("step", [](const StepTime& time) { return time.step_s; });
    if (precise_) {
      add_seconds("least step", [](const StepTime& time) { return time.range.least_s; });
      add_seconds("most step", [](const StepTime& time) { return time.range.most_s; });
    }
    add_seconds("T", [](const StepTime& time) { return time.paper_step_s; });
    add("log(1/T)", false, [](const StrategyFigures& row) {
      return std::isfinite(row.time.indicator) ? fmt::format("{:.3f}", row.time.indicator) : "-";
    });
  }

  void add_speed() {
    const PlanOptions& options = report_.options;
    if (rows_.empty() || !options.tokens_per_s(rows_.front().time.step_s)) {
      return;
    }
    add_number("tokens/s", 0, [&](const StrategyFigures& row) {
      return options.tokens_per_s(row.time.step_s).value_or(0);
    });
    if (options.mfu(rows_.front().time.step_s)) {
      add_number("MFU", 3, [&](const StrategyFigures& row) {
        return options.mfu(row.time.step_s).value_or(0);
      });
    }
  }

  void add_cost() {
    const PlanOptions& options = report_.options;
    if (!options.prices) {
      return;
    }
    const auto cost = [&](const StrategyFigures& row) {
      return per_million_tokens(row.time.step_s, options.tokens_per_rank(), *options.prices);
    };
    if (options.prices->per_rank_hour > 0 || options.prices->per_kwh > 0) {
      add_number("cost/Mtoken", 4, [&](const StrategyFigures& row) { return cost(row).money; });
    }
    if (options.prices->watts_per_rank > 0) {
      add_number("kWh/Mtoken", 4, [&](const StrategyFigures& row) { return cost(row).kwh; });
    }
  }

  [[nodiscard]] std::string mark(const StrategyFigures& row) const {
    if (&row == report_.recommendation.recommended()) {
      return "*";
    }
    return &row == report_.recommendation.runner_up() ? "+" : " ";
  }

  // In the ranking, from 1 on; nothing where it does not fit.
  [[nodiscard]] std::string order(const StrategyFigures& row) const {
    const std::vector<size_t>& ranking = report_.recommendation.ranking;
    const auto at = static_cast<size_t>(&row - rows_.data());
    const auto found = std::find(ranking.begin(), ranking.end(), at);
    return found == ranking.end() ? "" : std::to_string(found - ranking.begin() + 1);
  }

  const Report& report_;
  const std::vector<StrategyFigures>& rows_;
  bool precise_;
  TextUnit memory_{"", 1};
  TextUnit time_{"", 1};
  std::vector<ho::Column> columns_;
};

}  // namespace

FigureColumns figure_columns(const Report& report, Precise precise) {
  return Columns(report, precise).all();
}

TextUnit memory_unit(double largest_bytes) {
  return largest_bytes >= 1e9 ? TextUnit{"GB", 1e9} : TextUnit{"MB", 1e6};
}

TextUnit time_unit(double longest_s) {
  return longest_s >= 1 ? TextUnit{"s", 1} : TextUnit{"ms", 1e-3};
}

std::string figure_text(double value, int digits) {
  constexpr double kMaxText = 1e9;
  return std::abs(value) < kMaxText ? ho::fixed(value, digits) : fmt::format("{:.2e}", value);
}

}  // namespace paro::tool
