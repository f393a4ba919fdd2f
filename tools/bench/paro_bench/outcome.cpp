#include "bench/paro_bench/outcome.hpp"

#include <algorithm>
#include <cmath>

#include "cli/subcommands/statistics.hpp"
#include "planner/planner.hpp"

namespace paro::bench {
namespace {

using tool::StepTimes;

// -1, 0 (tied) or 1.
int order(double a, double b, double tie) {
  if (std::abs(a - b) <= tie * std::max(std::abs(a), std::abs(b))) {
    return 0;
  }
  return a < b ? -1 : 1;
}

// As the planner orders what fits.
const Outcome* recommended_within(std::span<const Outcome> outcomes, const Outcome& baseline) {
  std::vector<size_t> fitting;
  std::vector<StrategyFigures> figures;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const Outcome& outcome = outcomes[i];
    figures.push_back(outcome.planned.value_or(StrategyFigures{}));
    if (!outcome.system.is_baseline && outcome.system.world == WorldAlgorithm::kHoRing &&
        outcome.planned && outcome.compute_factor == baseline.compute_factor &&
        outcome.last().memory.predicted.total() <= baseline.last().memory.predicted.total()) {
      fitting.push_back(i);
    }
  }
  const std::vector<size_t> ranking = in_order(std::move(fitting), figures);
  return ranking.empty() ? nullptr : &outcomes[ranking.front()];
}

double step_s(const Sample& sample) {
  return sample.times.step;
}

}  // namespace

StepTimes Outcome::times() const {
  const auto of = [&](double StepTimes::*part) {
    std::vector<double> values;
    values.reserve(samples.size());
    for (const Sample& sample : samples) {
      values.push_back(sample.times.*part);
    }
    return ho::median(std::move(values));
  };
  StepTimes middle;
  for (double StepTimes::*part : {&StepTimes::step,
                                  &StepTimes::compute,
                                  &StepTimes::exposed,
                                  &StepTimes::idle,
                                  &StepTimes::update,
                                  &StepTimes::hooks,
                                  &StepTimes::per_hook}) {
    middle.*part = of(part);
  }
  return middle;
}

std::optional<double> Outcome::processors_busy() const {
  std::vector<double> shares;
  for (const Sample& sample : samples) {
    if (sample.processors_busy) {
      shares.push_back(*sample.processors_busy);
    }
  }
  return shares.empty() ? std::nullopt : std::optional(ho::median(std::move(shares)));
}

double Outcome::least_step_s() const {
  return std::ranges::min(samples, {}, step_s).times.step;
}

double Outcome::most_step_s() const {
  return std::ranges::max(samples, {}, step_s).times.step;
}

std::optional<double> kendall_tau_b(std::span<const double> a,
                                    std::span<const double> b,
                                    double tie) {
  double agreeing = 0;
  double untied_a = 0;
  double untied_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = i + 1; j < a.size(); ++j) {
      const int in_a = order(a[i], a[j], tie);
      const int in_b = order(b[i], b[j], tie);
      agreeing += in_a * in_b;
      untied_a += in_a != 0 ? 1 : 0;
      untied_b += in_b != 0 ? 1 : 0;
    }
  }
  if (untied_a == 0 || untied_b == 0) {
    return std::nullopt;
  }
  return agreeing / std::sqrt(untied_a * untied_b);
}

std::vector<Comparison> comparisons(std::span<const Outcome> outcomes, double compute_factor) {
  std::vector<Comparison> all;
  for (const Outcome& outcome : outcomes) {
    if (outcome.system.is_baseline && outcome.compute_factor == compute_factor) {
      if (const Outcome* ours = recommended_within(outcomes, outcome); ours != nullptr) {
        all.push_back({&outcome, ours});
      }
    }
  }
  return all;
}

}  // namespace paro::bench
