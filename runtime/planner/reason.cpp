#include "planner/reason.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/quantity.hpp"

namespace paro {
namespace {

bool tie(double better, double worse) {
  return worse <= better * (1 + kTieShare);
}

// Seconds of steps.
bool as_long(double better, double worse) {
  return worse <= better * (1 + kStepTieShare);
}

std::string memory_clause(const StrategyFigures& best, const PlannerRequest& request) {
  if (request.memory_bytes == 0) {
    return fmt::format("it needs {} per rank, whose memory is not known",
                       ho::bytes_text(best.memory.total()));
  }
  return fmt::format("it needs {} of {} per rank, {} to spare",
                     ho::bytes_text(best.memory.total()),
                     ho::bytes_text(request.memory_bytes),
                     ho::bytes_text(request.memory_bytes - best.memory.total()));
}

std::string bottleneck_clause(const StrategyFigures& best) {
  const StepTime& time = best.time;
  if (time.communication_s == 0) {
    return "nothing is communicated";
  }
  const double counts_s = kTieShare * time.step_s;
  if (time.exposed_s <= counts_s) {
    return "computation is the bottleneck";
  }
  const double gain_s = std::max(time.intra.gain_s, time.inter.gain_s);
  if (gain_s <= counts_s) {
    return "the links inside and between groups are the bottleneck, neither more than the other";
  }
  return fmt::format("the links {} groups are the bottleneck and hold it up by {}",
                     gain_s == time.inter.gain_s ? "between" : "inside",
                     ho::seconds_text(gain_s));
}

std::string runner_up_clause(const StrategyFigures& best, const StrategyFigures& next) {
  const std::string name = letters(next.strategy);
  if (!as_long(best.time.step_s, next.time.step_s)) {
    return fmt::format("the runner-up {} would take {}, {} of it exposed",
                       name,
                       ho::seconds_text(next.time.step_s),
                       ho::seconds_text(next.time.exposed_s));
  }
  if (!tie(best.time.communication_s, next.time.communication_s)) {
    return fmt::format("the runner-up {} takes as long but communicates for {}, not {}",
                       name,
                       ho::seconds_text(next.time.communication_s),
                       ho::seconds_text(best.time.communication_s));
  }
  if (!tie(best.memory.total(), next.memory.total())) {
    return fmt::format(
        "the runner-up {} is as fast but needs {}", name, ho::bytes_text(next.memory.total()));
  }
  return fmt::format("the runner-up {} equals it in all of this", name);
}

// What would be faster if there were memory for it.
std::string faster_clause(const Recommendation& recommendation, const StrategyFigures& best) {
  const StrategyFigures* fastest = nullptr;
  for (const StrategyFigures& figures : recommendation.figures) {
    const double step_s = figures.time.step_s;
    const bool faster = step_s < best.time.step_s && !as_long(step_s, best.time.step_s);
    if (!figures.fits() && faster && (fastest == nullptr || step_s < fastest->time.step_s)) {
      fastest = &figures;
    }
  }
  if (fastest == nullptr) {
    return {};
  }
  return fmt::format("; {} would take {} but lacks {}",
                     letters(fastest->strategy),
                     ho::seconds_text(fastest->time.step_s),
                     ho::bytes_text(fastest->missing_bytes));
}

// Groups of the same size with which the strategy would fit: what is split over the world shrinks
// with it, everything else stays.
std::optional<double> groups_needed(const StrategyFigures& figures, const PlannerRequest& request) {
  const StateBytes& states = figures.memory.states;
  double over_world = 0;
  over_world += figures.strategy.parameters == Scope::kWorld ? states.parameters : 0;
  over_world += figures.strategy.gradients == Scope::kWorld ? states.gradients : 0;
  over_world += figures.strategy.optimizer == Scope::kWorld ? states.optimizer : 0;
  const double left = request.memory_bytes - (figures.memory.total() - over_world);
  if (left <= 0) {
    return std::nullopt;
  }
  return std::ceil(over_world * request.world.group_count / left);
}

std::string more_groups_clause(const Recommendation& recommendation,
                               const PlannerRequest& request) {
  std::optional<double> fewest;
  const StrategyFigures* with_them = nullptr;
  for (const StrategyFigures& figures : recommendation.figures) {
    const auto groups = groups_needed(figures, request);
    if (groups && (!fewest || *groups < *fewest)) {
      fewest = groups;
      with_them = &figures;
    }
  }
  if (!fewest) {
    return "no number of further groups is enough";
  }
  return fmt::format("{} fits from {:.0f} groups of {} on",
                     letters(with_them->strategy),
                     *fewest,
                     request.world.group_size);
}

std::string nothing_fits(const Recommendation& recommendation, const PlannerRequest& request) {
  const auto& smallest = *std::min_element(recommendation.figures.begin(),
                                           recommendation.figures.end(),
                                           [](const StrategyFigures& a, const StrategyFigures& b) {
                                             return a.memory.total() < b.memory.total();
                                           });
  const MemoryNeed& need = smallest.memory;
  const double buffers = need.gathered + need.gradient_buffers;
  std::string text = fmt::format(
      "nothing fits: {} needs the least, {} of {} per rank, and lacks {}; {} of it are "
      "model states, {} buffers and {} activations; {}",
      letters(smallest.strategy),
      ho::bytes_text(need.total()),
      ho::bytes_text(request.memory_bytes),
      ho::bytes_text(smallest.missing_bytes),
      ho::bytes_text(need.states.total()),
      ho::bytes_text(buffers),
      ho::bytes_text(need.activations),
      more_groups_clause(recommendation, request));
  if (need.activations >= smallest.missing_bytes) {
    text += "; a smaller micro-batch, or recomputing activations, helps if it saves as much";
  } else if (buffers >= smallest.missing_bytes) {
    text += "; smaller layers take smaller buffers";
  }
  return text;
}

}  // namespace

std::string reason(const Recommendation& recommendation, const PlannerRequest& request) {
  const StrategyFigures* const best = recommendation.recommended();
  if (best == nullptr) {
    return nothing_fits(recommendation, request);
  }
  std::string text = fmt::format("{} takes {} a step, {} of it exposed communication; {}; {}",
                                 letters(best->strategy),
                                 ho::seconds_text(best->time.step_s),
                                 ho::seconds_text(best->time.exposed_s),
                                 bottleneck_clause(*best),
                                 memory_clause(*best, request));
  if (const StrategyFigures* const next = recommendation.runner_up()) {
    text += "; " + runner_up_clause(*best, *next);
  } else {
    text += "; nothing else fits";
  }
  return text + faster_clause(recommendation, *best);
}

}  // namespace paro
