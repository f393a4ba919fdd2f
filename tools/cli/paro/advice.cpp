#include "cli/paro/advice.hpp"

#include <spdlog/fmt/fmt.h>

#include <optional>
#include <string>
#include <vector>

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

// Where it has another micro-batch than its strategy's row of `all`.
std::string micro_batch_text(const StrategyFigures& figures,
                             const Recommendation& all,
                             const PlannerRequest& request) {
  for (const StrategyFigures& row : all.figures) {
    if (row.strategy == figures.strategy && row.micro_batches != figures.micro_batches) {
      return fmt::format(", micro-batches of {}", request.sequences / figures.micro_batches);
    }
  }
  return {};
}

// What fits: of all group sizes that were compared, else rows of the figures.
std::string fitting_text(const Report& report) {
  const Recommendation& all = report.recommendation;
  const SizedPlans& sizes = report.sizes;
  std::string text;
  const auto add = [&](const char* what, const StrategyFigures& figures, std::string_view more) {
    text += line(what,
                 fmt::format("{}, {}, {}{}",
                             name_text(figures.strategy),
                             step_text(figures),
                             ho::bytes_text(figures.memory.total()),
                             more));
  };
  const auto add_either = [&](const char* what,
                              const std::optional<Candidate>& own,
                              const std::optional<SizedRow>& sized) {
    if (sized) {
      const SizedPlan& plan = sizes.plans[sized->plan];
      add(what,
          sized->figures,
          fmt::format("{}, groups of {}",
                      micro_batch_text(sized->figures, plan.recommendation, plan.request),
                      plan.request.world.group_size));
    } else if (own) {
      add(what, own->figures, micro_batch_text(own->figures, all, report.options.request));
    }
  };
  add_either("fastest:", all.fastest, sizes.fastest);
  add_either("smallest:", all.smallest, sizes.smallest);
  add_either("simplest:", all.simplest, sizes.simplest);
  return text;
}

std::string near_miss_text(const Recommendation& recommendation) {
  if (!recommendation.near_miss) {
    return {};
  }
  const NearMiss& miss = *recommendation.near_miss;
  const StrategyFigures& figures = recommendation.figures[miss.row];
  return line("nearly fits:",
              fmt::format("{}, {}, lacks {}; fits with {}",
                          name_text(figures.strategy),
                          step_text(figures),
                          ho::bytes_text(figures.missing_bytes),
                          fmt::join(miss.remedies, ", or ")));
}

// Where every strategy has its own.
std::string batch_line(const StrategyFigures& figures, const PlannerRequest& request) {
  return request.sequences == 0 ? ""
                                : line("batch:",
                                       fmt::format("micro-batch {}, accumulation {}",
                                                   request.sequences / figures.micro_batches,
                                                   figures.micro_batches));
}

// Of a million tokens; nothing where no price is given.
std::string cost_text(const StrategyFigures& figures, const PlanOptions& options) {
  if (!options.prices) {
    return {};
  }
  const Prices& prices = *options.prices;
  const TokenCost cost = per_million_tokens(figures.time.step_s, options.tokens_per_rank(), prices);
  std::vector<std::string> parts;
  if (prices.per_rank_hour > 0 || prices.per_kwh > 0) {
    parts.push_back(fmt::format("{:.4g}", cost.money));
  }
  if (prices.watts_per_rank > 0) {
    parts.push_back(fmt::format("{:.4g} kWh", cost.kwh));
  }
  return parts.empty() ? ""
                       : line("cost:", fmt::format("{} a million tokens", fmt::join(parts, ", ")));
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
  const std::string of_best = best == nullptr
                                  ? ""
                                  : batch_line(*best, report.options.request) + range_text(*best) +
                                        cost_text(*best, report.options);
  return fitting_text(report) + near_miss_text(report.recommendation) + of_best;
}

std::string warnings_text(const std::vector<std::string>& assumed) {
  std::string text;
  for (const std::string& each : assumed) {
    text += line("warning:", "assumed: " + each);
  }
  return text;
}

}  // namespace paro::tool
