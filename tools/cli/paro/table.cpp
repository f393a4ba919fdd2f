#include "cli/subcommands/table.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/quantity.hpp"
#include "cli/paro/report.hpp"
#include "planner/text/group_text.hpp"

namespace paro::tool {
namespace {

struct Unit {
  std::string_view name;
  double size;
};

Unit memory_unit(double largest) {
  return largest >= 1e9 ? Unit{"GB", 1e9} : Unit{"MB", 1e6};
}

Unit time_unit(double largest) {
  return largest >= 1 ? Unit{"s", 1} : Unit{"ms", 1e-3};
}

// Columns stay readable where the cluster that is asked about cannot be meant.
std::string to_string(double value, int digits) {
  constexpr double kMaxText = 1e9;
  return std::abs(value) < kMaxText ? ho::fixed(value, digits) : fmt::format("{:.2e}", value);
}

std::string rate_text(double bytes_per_s) {
  return fmt::format("{:.4g} Gbit/s", bytes_per_s * 8 / 1e9);
}

// "; 131 million in a unit that 1 more shares"; nothing where none does.
std::string sharing_text(const PlannerRequest& request) {
  return request.sharing_units == 0
             ? ""
             : fmt::format("; {} in a unit that {} more share{}",
                           ho::count_text(request.model.shared / request.sharing_units),
                           request.sharing_units,
                           request.sharing_units == 1 ? "s" : "");
}

std::string batch_text(const PlanOptions& options) {
  const PlannerRequest& request = options.request;
  return request.sequences > 0
             ? fmt::format("{} sequences a rank, in micro-batches as memory is for",
                           request.sequences)
             : fmt::format(
                   "micro-batch {}, accumulation {}", options.micro_batch, request.micro_batches);
}

// What a rank has of the model, and what dimensions beside data parallelism send; nothing where
// there are none.
std::string parallelism_text(const PlanOptions& options) {
  if (!options.job || options.job->sizes.alone()) {
    return {};
  }
  const Parallelism& sizes = options.job->sizes;
  std::string text =
      fmt::format("beside   tp {}, cp {}, ep {}, pp {}: of {} parameters a rank has {}",
                  sizes.tensor,
                  sizes.context,
                  sizes.expert,
                  sizes.pipeline,
                  ho::count_text(options.model.size.parameters),
                  ho::count_text(options.request.model.parameters));
  for (const DimensionTraffic& each : options.steps.traffic) {
    text += fmt::format("; {} sends {} a micro-batch {} nodes",
                        each.dimension,
                        ho::bytes_text(each.bytes),
                        each.level == Level::kIntra ? "inside" : "between");
  }
  return text + fmt::format("; bubble {:.3g} %\n", options.steps.bubble * 100);
}

// Of the head, what follows the cluster.
std::string tail_text(const Report& report) {
  const PlanOptions& options = report.options;
  const PlannerRequest& request = options.request;
  std::string text =
      fmt::format("\nstep     {}; computation {}\n",
                  batch_text(options),
                  request.compute_s > 0 ? ho::seconds_text(request.compute_s) : "not given");
  text += fmt::format("rank     {}; activations {}\n",
                      request.memory_bytes > 0 ? ho::bytes_text(request.memory_bytes) + " of memory"
                                               : "memory not given, everything counts as fitting",
                      ho::bytes_text(request.activation_bytes));
  text += parallelism_text(options);
  for (const std::string& note : report.notes) {
    text += "note     " + note + "\n";
  }
  for (const std::string& assumed : request.assumed) {
    text += "assumed  " + assumed + "\n";
  }
  return text + "\n";
}

// What the figures are for.
std::string head_text(const Report& report) {
  const PlanOptions& options = report.options;
  const PlannerRequest& request = options.request;
  const WorldShape& world = request.world;
  std::string text =
      fmt::format("model    {}: {} parameters, {} of them trained, {} layers{}; bytes {},{},{}{}\n",
                  options.model.text,
                  ho::count_text(request.model.parameters),
                  ho::count_text(request.model.trainable),
                  request.layers,
                  sharing_text(request),
                  request.bytes.parameter,
                  request.bytes.gradient,
                  request.bytes.optimizer,
                  request.bytes.gradient_sum > 0
                      ? fmt::format(", sums of gradients {}", request.bytes.gradient_sum)
                      : "");
  if (!request.links.levels.empty()) {
    text += "cluster  " + levels_text(request) + "\ngroups   " + groups_text(request);
    return text + tail_text(report);
  }
  text += fmt::format("cluster  {} nodes of {} ranks", world.group_count, world.group_size);
  if (world.group_size > 1) {
    text += fmt::format("; inside {} per rank", rate_text(request.links.intra_bytes_per_s));
  }
  if (world.group_count > 1) {
    text += fmt::format("; between {} per NIC, NICs per node: {}; world collectives: {}",
                        rate_text(request.links.inter_bytes_per_s),
                        request.links.nics_per_group,
                        to_string(request.links.world));
  }
  return text + tail_text(report);
}

class Table {
 public:
  explicit Table(const Report& report)
      : report_(report),
        rows_(report.recommendation.figures),
        memory_(memory_unit(0)),
        time_(time_unit(0)) {
    double bytes = 0;
    double seconds = 0;
    for (const StrategyFigures& row : rows_) {
      bytes = std::max(bytes, row.memory.total());
      seconds = std::max(seconds, row.time.step_s);
    }
    memory_ = memory_unit(bytes);
    time_ = time_unit(seconds);
  }

  [[nodiscard]] std::string text() && {
    add("", true, [&](const StrategyFigures& row) { return mark(row); });
    add("strategy", true, [](const StrategyFigures& row) { return letters(row.strategy); });
    if (sequences() > 0) {
      add("batch", false, [&](const StrategyFigures& row) {
        return fmt::format("{}x{}", sequences() / row.micro_batches, row.micro_batches);
      });
    }
    add_memory();
    add_time();
    add_cost();
    add("known as", true, [](const StrategyFigures& row) { return known_as_text(row.strategy); });
    return fmt::format(
        "Memory per rank in {}; time in {}: param and gradient per micro-batch, the rest per "
        "step.\n"
        "comm: {} x (param + gradient) + sync-g + sync-p. step: the critical path of the step "
        "plan, and what comes on top of it.\nexposed: communication in it that computation does "
        "not hide. T = max(comm, "
        "computation).\n\n{}",
        memory_.name,
        time_.name,
        sequences() > 0 ? "accumulation" : std::to_string(report_.options.request.micro_batches),
        ho::aligned(columns_));
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
  void add_bytes(const char* head, Value value) {
    add(head, false, [&](const StrategyFigures& row) {
      return to_string(value(row.memory) / memory_.size, 2);
    });
  }

  template <typename Value>
  void add_seconds(const char* head, Value value) {
    add(head, false, [&](const StrategyFigures& row) {
      return to_string(value(row.time) / time_.size, 3);
    });
  }

  void add_memory() {
    add_bytes("params", [](const MemoryNeed& need) { return need.states.parameters; });
    add_bytes("grads", [](const MemoryNeed& need) { return need.states.gradients; });
    add_bytes("optim", [](const MemoryNeed& need) { return need.states.optimizer; });
    add_bytes("states", [](const MemoryNeed& need) { return need.states.total(); });
    add_bytes("buffers",
              [](const MemoryNeed& need) { return need.gathered + need.gradient_buffers; });
    if (report_.options.request.reserve_bytes > 0) {
      add_bytes("reserve", [](const MemoryNeed& need) { return need.reserve; });
    }
    add_bytes("need", [](const MemoryNeed& need) { return need.total(); });
    add("fits", false, [&](const StrategyFigures& row) {
      return row.fits()
                 ? "yes"
                 : fmt::format(
                       "-{} {}", to_string(row.missing_bytes / memory_.size, 2), memory_.name);
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
    add_seconds("T", [](const StepTime& time) { return time.paper_step_s; });
    add("log(1/T)", false, [](const StrategyFigures& row) {
      return std::isfinite(row.time.indicator) ? fmt::format("{:.3f}", row.time.indicator) : "-";
    });
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
      add("cost/Mtoken", false, [&](const StrategyFigures& row) {
        return to_string(cost(row).money, 4);
      });
    }
    if (options.prices->watts_per_rank > 0) {
      add("kWh/Mtoken", false, [&](const StrategyFigures& row) {
        return to_string(cost(row).kwh, 4);
      });
    }
  }

  [[nodiscard]] std::string mark(const StrategyFigures& row) const {
    if (&row == report_.recommendation.recommended()) {
      return "*";
    }
    return &row == report_.recommendation.runner_up() ? "+" : " ";
  }

  const Report& report_;
  const std::vector<StrategyFigures>& rows_;
  Unit memory_;
  Unit time_;
  std::vector<ho::Column> columns_;
};

// Where something comes on top of the critical path, or may: between what the step lies.
std::string range_text(const StrategyFigures& figures) {
  const StepRange& range = figures.time.range;
  return fmt::format("step:        {} expected; {} if all hides that can, {} if nothing does\n",
                     ho::seconds_text(range.expected_s),
                     ho::seconds_text(range.least_s),
                     ho::seconds_text(range.most_s));
}

}  // namespace

std::string table_text(const Report& report) {
  const auto named = [](const StrategyFigures* figures, const char* mark) {
    return figures == nullptr ? "none" : letters(figures->strategy) + " (" + mark + ")";
  };
  const StrategyFigures* const recommended = report.recommendation.recommended();
  return head_text(report) + Table(report).text() + sizes_text(report) +
         fmt::format("\nrecommended: {}\nrunner-up:   {}\n{}why:         {}\n",
                     named(report.recommendation.recommended(), "*"),
                     named(report.recommendation.runner_up(), "+"),
                     recommended == nullptr ? "" : range_text(*recommended),
                     report.recommendation.why);
}

}  // namespace paro::tool
