#include "cli/paro/advice.hpp"

#include <spdlog/fmt/fmt.h>

#include <optional>

#include "base/quantity.hpp"

namespace paro::tool {
namespace {

// "GGG (ZeRO-3, FSDP)"
std::string name_text(const Strategy& strategy) {
  const std::string known_as = known_as_text(strategy);
  return letters(strategy) + (known_as.empty() ? "" : " (" + known_as + ")");
}

std::string step_text(const StrategyFigures& row) {
  return ho::seconds_text(row.time.step_s) + " a step";
}

std::string line(const char* what, const std::string& text) {
  return fmt::format("{:<13}{}\n", what, text);
}

// That are rows of the figures, and fit.
std::string fitting_text(const Recommendation& all) {
  std::string text;
  const auto add = [&](const char* what, const std::optional<size_t>& row) {
    if (row) {
      const StrategyFigures& figures = all.figures[*row];
      text += line(what,
                   fmt::format("{}, {}, {}",
                               name_text(figures.strategy),
                               step_text(figures),
                               ho::bytes_text(figures.memory.total())));
    }
  };
  add("fastest:", all.fastest);
  add("smallest:", all.smallest);
  add("simplest:", all.simplest);
  return text;
}

std::string near_miss_text(const Recommendation& recommendation) {
  if (!recommendation.near_miss) {
    return {};
  }
  const NearMiss& miss = *recommendation.near_miss;
  const StrategyFigures& figures = recommendation.figures[miss.row];
  return line("nearly fits:",
              fmt::format("{}, {}, lacks {}; {}",
                          name_text(figures.strategy),
                          step_text(figures),
                          ho::bytes_text(figures.missing_bytes),
                          miss.remedies.empty()
                              ? "nothing that is known here makes it fit"
                              : fmt::format("fits with {}", fmt::join(miss.remedies, ", or "))));
}

// Where every strategy has its own.
std::string batch_line(const StrategyFigures& figures, const PlannerRequest& request) {
  return request.sequences == 0 ? ""
                                : line("batch:",
                                       fmt::format("micro-batch {}, accumulation {}",
                                                   request.sequences / figures.micro_batches,
                                                   figures.micro_batches));
}

// Between what the step lies.
std::string range_text(const StrategyFigures& figures) {
  const StepRange& range = figures.time.range;
  return line("step:",
              fmt::format("{} expected; {} if all hides that can, {} if nothing does",
                          ho::seconds_text(range.expected_s),
                          ho::seconds_text(range.least_s),
                          ho::seconds_text(range.most_s)));
}

}  // namespace

std::string reason_text(const Recommendation& recommendation) {
  const std::vector<std::string>& reasons = recommendation.reasons;
  return recommendation.recommended() == nullptr
             ? line("recommended:", "none: " + reasons[0])
             : line("recommended:", reasons[0]) + line("", reasons[1]);
}

std::string others_text(const Report& report) {
  const StrategyFigures* const best = report.recommendation.recommended();
  const std::string of_best =
      best == nullptr ? "" : batch_line(*best, report.options.request) + range_text(*best);
  return fitting_text(report.recommendation) + near_miss_text(report.recommendation) + of_best;
}

std::string warnings_text(const std::vector<std::string>& assumed) {
  std::string text;
  for (const std::string& each : assumed) {
    text += line("warning:", "assumed: " + each);
  }
  return text;
}

}  // namespace paro::tool
