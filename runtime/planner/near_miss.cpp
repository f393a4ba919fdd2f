#include "planner/near_miss.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/quantity.hpp"
#include "planner/batch.hpp"

namespace paro {
namespace {

double needed(const Strategy& strategy, const PlannerRequest& request) {
  return memory_of(strategy, with_batch(strategy, request)).total();
}

bool fits(const Strategy& strategy, const PlannerRequest& request) {
  return needed(strategy, request) <= request.memory_bytes;
}

struct Remedy {
  std::string what;
  PlannerRequest request;  // with it
};

void try_sums(const PlannerRequest& request, std::vector<Remedy>& remedies) {
  const BytesPerParameter& bytes = request.bytes;
  if (bytes.gradient_sum > bytes.gradient) {
    Remedy remedy{fmt::format("sums of gradients in {:g} bits", 8 * bytes.gradient), request};
    remedy.request.bytes.gradient_sum = 0;
    remedies.push_back(std::move(remedy));
  }
}

// The largest smaller micro-batch that fits, and as many more of them.
void try_micro_batches(const Strategy& strategy,
                       const PlannerRequest& request,
                       std::vector<Remedy>& remedies) {
  constexpr double kFp32 = 4;
  for (uint32_t parts = 2; parts <= request.micro_batch; ++parts) {
    if (request.micro_batch % parts != 0) {
      continue;
    }
    PlannerRequest smaller = request;
    smaller.micro_batch /= parts;
    smaller.micro_batches *= parts;
    smaller.activation_bytes /= parts;
    set_waiting(smaller);
    if (request.micro_batches == 1 && request.bytes.gradient > 0) {  // now they are added
      smaller.bytes.gradient_sum = std::max(request.bytes.gradient, kFp32);
    }
    if (check(smaller).ok() && fits(strategy, smaller)) {
      remedies.push_back(
          {fmt::format(
               "micro-batches of {}, {} of them", smaller.micro_batch, smaller.micro_batches),
           std::move(smaller)});
      return;
    }
  }
}

void try_recomputation(const PlannerRequest& request, std::vector<Remedy>& remedies) {
  for (const Recomputed& each : request.recomputed) {
    Remedy remedy{
        fmt::format(
            "{} recomputation{}", each.name, each.at_reported_rate ? " at the same rate" : ""),
        request};
    remedy.request.activation_bytes = each.activation_bytes;
    remedy.request.activations_of_sequence = each.activations_of_sequence;
    remedy.request.compute_s = each.compute_s + request.waiting_s;
    remedy.request.forward_share = each.forward_share;
    remedy.request.others.traffic = each.traffic;
    set_waiting(remedy.request);
    remedies.push_back(std::move(remedy));
  }
}

void try_prefetch(const Strategy& strategy,
                  const PlannerRequest& request,
                  std::vector<Remedy>& remedies) {
  PlannerRequest fewer = request;
  for (const uint32_t layers : {1U, 0U}) {
    fewer.prefetch = layers;
    if (layers < request.prefetch && fits(strategy, fewer)) {
      remedies.push_back(
          {layers == 0 ? "no layer gathered ahead" : "1 layer gathered ahead", fewer});
      return;
    }
  }
}

// Those that fit, with what they need and take; none that is as slow as `slowest_s`.
ho::Result<std::vector<std::string>> worked_out(const Strategy& strategy,
                                                const std::vector<Remedy>& remedies,
                                                double slowest_s) {
  std::vector<std::string> texts;
  for (const Remedy& remedy : remedies) {
    if (!fits(strategy, remedy.request)) {
      continue;
    }
    HORING_ASSIGN(const double step_s,
                  expected_step_s(strategy, with_batch(strategy, remedy.request)));
    if (step_s < slowest_s) {
      texts.push_back(fmt::format("{} ({}, {} a step)",
                                  remedy.what,
                                  ho::bytes_text(needed(strategy, remedy.request)),
                                  ho::seconds_text(step_s)));
    }
  }
  return texts;
}

void add_groups(const Strategy& strategy,
                const PlannerRequest& request,
                std::vector<std::string>& texts) {
  if (const auto groups = groups_needed(strategy, request)) {
    PlannerRequest larger = request;
    larger.world.group_count = *groups;
    texts.push_back(fmt::format("{} groups of {} ({})",
                                *groups,
                                request.world.group_size,
                                ho::bytes_text(needed(strategy, larger))));
  }
}

void add_activations(const StrategyFigures& figures, std::vector<std::string>& texts) {
  const double most = figures.memory.activations - figures.missing_bytes;
  if (most > 0) {
    texts.push_back(fmt::format("activations of at most {}, not {}",
                                ho::bytes_text(most),
                                ho::bytes_text(figures.memory.activations)));
  }
}

// The row that lacks least of those that `counts`.
template <typename Counts>
std::optional<size_t> least_lacking(const Recommendation& all, Counts counts) {
  std::optional<size_t> found;
  for (size_t row = 0; row < all.figures.size(); ++row) {
    const StrategyFigures& figures = all.figures[row];
    if (!figures.fits() && counts(figures) &&
        (!found || figures.missing_bytes < all.figures[*found].missing_bytes)) {
      found = row;
    }
  }
  return found;
}

// The row that lacks least of those that would be faster.
std::optional<size_t> nearest(const Recommendation& all) {
  double fastest_s = std::numeric_limits<double>::infinity();
  for (const StrategyFigures& figures : all.figures) {
    fastest_s = std::min(fastest_s, figures.time.step_s);
  }
  const StrategyFigures* const best = all.recommended();
  const auto is_fast = [&](const StrategyFigures& figures) {
    const double step_s = figures.time.step_s;
    return best == nullptr ? as_fast(fastest_s, step_s) : !as_fast(step_s, best->time.step_s);
  };
  return least_lacking(all, is_fast);
}

ho::Result<std::optional<NearMiss>> miss_of(size_t row,
                                            const Recommendation& all,
                                            const PlannerRequest& request) {
  const StrategyFigures& figures = all.figures[row];
  const Strategy& strategy = figures.strategy;
  std::vector<Remedy> remedies;
  try_sums(request, remedies);
  try_micro_batches(strategy, request, remedies);
  try_recomputation(request, remedies);
  try_prefetch(strategy, request, remedies);
  const StrategyFigures* const best = all.recommended();
  NearMiss miss{row, {}};
  HORING_ASSIGN(
      miss.remedies,
      worked_out(strategy,
                 remedies,
                 best == nullptr ? std::numeric_limits<double>::infinity() : best->time.step_s));
  add_groups(strategy, request, miss.remedies);
  add_activations(figures, miss.remedies);
  return miss.remedies.empty() ? std::nullopt : std::optional(std::move(miss));
}

}  // namespace

std::optional<uint32_t> groups_needed(const Strategy& strategy, const PlannerRequest& request) {
  PlannerRequest larger = request;
  const auto fits_with = [&](uint32_t groups) {
    larger.world.group_count = groups;
    return fits(strategy, larger);
  };
  const uint32_t of_node = request.world.group_size * request.tensor_ranks;
  if (request.world.group_count == 1 && of_node < request.others.nodes.group_size) {
    return std::nullopt;  // more nodes make groups of more ranks
  }
  // What a rank needs does not grow with the groups: the fewest lie between these two.
  uint32_t too_few = request.world.group_count;
  uint32_t enough = kMaxRanks / request.world.group_size;
  if (enough <= too_few || !fits_with(enough)) {
    return std::nullopt;
  }
  while (enough - too_few > 1) {
    const uint32_t between = too_few + (enough - too_few) / 2;
    (fits_with(between) ? enough : too_few) = between;
  }
  return enough;
}

ho::Result<std::optional<NearMiss>> near_miss_of(const Recommendation& all,
                                                 const PlannerRequest& request) {
  std::optional<NearMiss> miss;
  if (const auto row = nearest(all)) {
    HORING_ASSIGN(miss, miss_of(*row, all, request));
  }
  if (miss || all.recommended() != nullptr) {
    return miss;
  }
  const auto row = least_lacking(all, [](const StrategyFigures&) { return true; });
  return row ? miss_of(*row, all, request) : ho::Result(miss);
}

}  // namespace paro
