#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/escaped.hpp"
#include "base/quantity.hpp"
#include "cli/paro/advice.hpp"
#include "cli/paro/figure_columns.hpp"
#include "cli/paro/head.hpp"
#include "cli/paro/report.hpp"
#include "cli/subcommands/table.hpp"
#include "planner/text/group_text.hpp"

namespace paro::tool {
namespace {

// A strategy, and what it is planned for.
struct Row {
  const PlanOptions* options;
  const StrategyFigures* figures;
  [[nodiscard]] std::optional<double> tokens_per_s() const {
    return options->tokens_per_s(figures->time.step_s);
  }
  // Sequences of a rank at once.
  [[nodiscard]] uint32_t micro_batch() const {
    const uint32_t sequences = options->request.sequences;
    return sequences > 0 ? sequences / figures->micro_batches : options->micro_batch;
  }
  [[nodiscard]] std::optional<double> mfu() const { return options->mfu(figures->time.step_s); }
};

class Summary {
 public:
  explicit Summary(std::vector<Row> rows) : rows_(std::move(rows)) {}

  // Those of a row's figures.
  [[nodiscard]] std::vector<ho::Column> columns() && {
    add("strategy", true, [](const Row& row) { return letters(row.figures->strategy); });
    add("known as", true, [](const Row& row) { return known_as_text(row.figures->strategy); });
    add_speed();
    add_micro_batch();
    add_memory();
    add("exposed ms", false, [](const Row& row) {
      return figure_text(row.figures->time.exposed_s * 1e3, 1);
    });
    return std::move(columns_);
  }

 private:
  template <typename Cell>
  void add(std::string head, bool left, Cell cell) {
    ho::Column column{std::move(head), left, {}};
    for (const Row& row : rows_) {
      column.cells.push_back(cell(row));
    }
    columns_.push_back(std::move(column));
  }

  template <typename Of>
  [[nodiscard]] double largest(Of of) const {
    double most = 0;
    for (const Row& row : rows_) {
      most = std::max(most, of(*row.figures));
    }
    return most;
  }

  void add_speed() {
    const auto all = [&](auto known) { return std::all_of(rows_.begin(), rows_.end(), known); };
    if (!all([](const Row& row) { return row.tokens_per_s().has_value(); })) {
      const TextUnit unit =
          time_unit(largest([](const StrategyFigures& row) { return row.time.step_s; }));
      add("step " + unit.name, false, [&](const Row& row) {
        return figure_text(row.figures->time.step_s / unit.size, 3);
      });
      return;
    }
    const bool gpus = all([](const Row& row) { return row.options->steps.peak_flops > 0; });
    add(gpus ? "tokens/s per GPU" : "tokens/s per rank", false, [](const Row& row) {
      const double tokens = row.tokens_per_s().value_or(0);
      constexpr double kWhole = 100;
      return tokens < kWhole ? fmt::format("{:.3g}", tokens) : figure_text(tokens, 0);
    });
    if (all([](const Row& row) { return row.mfu().has_value(); })) {
      add("MFU", false, [](const Row& row) { return figure_text(row.mfu().value_or(0), 3); });
    }
  }

  // Where rows differ: their memory is then of different micro-batches.
  void add_micro_batch() {
    const auto differs = [&](const Row& row) {
      return row.micro_batch() != rows_.front().micro_batch();
    };
    if (std::any_of(rows_.begin(), rows_.end(), differs)) {
      add("micro-batch", false, [](const Row& row) { return std::to_string(row.micro_batch()); });
    }
  }

  // "68.6 of 80 GB", "94.4 of 80 GB: lacks 14.4"
  void add_memory() {
    const TextUnit unit =
        memory_unit(largest([](const StrategyFigures& row) { return row.memory.total(); }));
    const auto need = [&](const Row& row) {
      return figure_text(row.figures->memory.total() / unit.size, 1);
    };
    size_t width = 0;
    for (const Row& row : rows_) {
      width = std::max(width, need(row).size());
    }
    add("memory", true, [&](const Row& row) {
      std::string text = fmt::format("{:>{}}", need(row), width);
      const double has = row.options->request.memory_bytes;
      text += has > 0 ? fmt::format(" of {:.4g} {}", has / unit.size, unit.name) : " " + unit.name;
      return text + (row.figures->fits()
                         ? ""
                         : fmt::format(": lacks {}",
                                       figure_text(row.figures->missing_bytes / unit.size, 1)));
    });
  }

  std::vector<Row> rows_;
  std::vector<ho::Column> columns_;
};

// The best first, then what does not fit, what lacks least first.
std::vector<const StrategyFigures*> best_first(const Recommendation& recommendation) {
  std::vector<const StrategyFigures*> rows;
  for (const size_t row : recommendation.ranking) {
    rows.push_back(&recommendation.figures[row]);
  }
  for (const StrategyFigures& figures : recommendation.figures) {
    if (!figures.fits()) {
      rows.push_back(&figures);
    }
  }
  std::stable_sort(
      rows.begin() + static_cast<std::ptrdiff_t>(recommendation.ranking.size()),
      rows.end(),
      [](const auto* a, const auto* b) { return a->missing_bytes < b->missing_bytes; });
  return rows;
}

// A line that says which option shows what is left out; nothing where all is there.
std::string left_out_text(const PlanOptions& options) {
  std::vector<std::string> missing;
  std::vector<const char*> of_speed;
  if (options.tokens_per_rank() == 0) {
    of_speed.push_back("--sequence");
  }
  if (options.request.compute_s == 0) {
    of_speed.push_back("--compute-time above 0");
  }
  if (!of_speed.empty()) {
    missing.push_back(fmt::format("tokens/s (give {})", fmt::join(of_speed, " and ")));
  }
  if (options.steps.peak_flops == 0) {
    missing.emplace_back("MFU (give --gpu, and a model by name or config.json)");
  }
  return missing.empty() ? "" : fmt::format("Left out: {}.\n", fmt::join(missing, "; "));
}

// Of all rows, each once; of those that differ in their numbers alone the first, and of which value
// it is.
std::vector<std::string> assumed_of(const Sweep& sweep) {
  const auto words = [](std::string text) {
    std::erase_if(text,
                  [](char letter) { return letter == '.' || (letter >= '0' && letter <= '9'); });
    return text;
  };
  std::vector<std::string> all;
  std::vector<std::string> all_words;
  for (const SweepRow& row : sweep.rows) {
    for (const std::string& each : row.report.options.request.assumed) {
      if (std::find(all_words.begin(), all_words.end(), words(each)) != all_words.end()) {
        continue;
      }
      const bool in_all =
          std::all_of(sweep.rows.begin(), sweep.rows.end(), [&](const SweepRow& other) {
            const auto& assumed = other.report.options.request.assumed;
            return std::find(assumed.begin(), assumed.end(), each) != assumed.end();
          });
      all.push_back(in_all ? each : fmt::format("with {}={}, {}", sweep.option, row.value, each));
      all_words.push_back(words(each));
    }
  }
  return all;
}

std::string impossible_text(const Sweep& sweep) {
  std::string text;
  for (const ImpossibleValue& each : sweep.impossible) {
    text += fmt::format("{}={} is not possible: {}\n",
                        sweep.option,
                        ho::escaped(each.value),
                        ho::escaped(each.why));
  }
  return text;
}

std::string least_text(const Sweep& sweep) {
  if (!sweep.least) {
    return {};
  }
  constexpr double kGigabit = 1e9 / 8;
  return fmt::format(
      "\nleast network: {:.3g} Gbit/s of a NIC are enough for {:.0f} % of the speed with {}\n",
      sweep.least->bytes_per_s / kGigabit,
      kKeptSpeed * 100,
      sweep.least->fastest);
}

}  // namespace

std::string summary_text(const Report& report) {
  const Recommendation& recommendation = report.recommendation;
  std::vector<Row> rows;
  ho::Column marks{"", true, {}};
  for (const StrategyFigures* const figures : best_first(recommendation)) {
    rows.push_back({&report.options, figures});
    marks.cells.emplace_back(figures == recommendation.recommended() ? "*"
                             : figures == recommendation.runner_up() ? "+"
                                                                     : " ");
  }
  std::vector<ho::Column> columns = Summary(std::move(rows)).columns();
  columns.insert(columns.begin(), std::move(marks));
  return head_text(report) + ho::aligned(columns) + left_out_text(report.options) +
         sizes_text(report) + "\n" + reason_text(recommendation) + others_text(report) +
         warnings_text(report.options.request.assumed);
}

std::string sweep_text(const Sweep& sweep) {
  std::vector<Row> rows;
  ho::Column values{sweep.option, false, {}};
  for (const SweepRow& row : sweep.rows) {
    rows.push_back({&row.report.options, &row.best()});
    values.cells.push_back(row.value);
  }
  std::vector<ho::Column> columns = Summary(std::move(rows)).columns();
  columns.insert(columns.begin(), std::move(values));
  const PlanOptions& first = sweep.rows.front().report.options;
  return fmt::format(
             "model    {}: {} parameters\nsweep    --{}: each value with what is recommended for "
             "it\n\n",
             ho::escaped(first.model.text),
             ho::count_text(first.model.size.parameters),
             sweep.option) +
         ho::aligned(columns) + impossible_text(sweep) + left_out_text(first) + least_text(sweep) +
         "\n" + warnings_text(assumed_of(sweep));
}

}  // namespace paro::tool
