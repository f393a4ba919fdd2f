#include "parity_case.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "job.hpp"
#include "run/budget.hpp"
#include "step/traffic.hpp"

namespace paro::test {
namespace {

using toy::Outcome;
using toy::Training;

constexpr Phase kPhases[] = {Phase::kForward, Phase::kBackward, Phase::kSyncG, Phase::kSyncP};

bool near(double value, double wanted, double relative) {
  return std::abs(value - wanted) <= relative * std::max(std::abs(wanted), 1e-3) ||
         (!std::isfinite(value) && !std::isfinite(wanted));
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

// What all ranks sent, phase by phase, against the plan. Collective.
std::string wrong_bytes(ho_comm* comm,
                        const ho::GroupMap& groups,
                        const StepRunner& runner,
                        uint32_t steps) {
  const auto nodes = nodes_of(comm);
  const StepTraffic planned(runner.plan(),
                            runner.shards().layouts,
                            groups,
                            *nodes,
                            {ho::size_bytes(runner.config().parameter_dtype),
                             ho::size_bytes(sent_dtype(runner.config()))});
  std::string wrong;
  for (const Phase phase : kPhases) {
    uint64_t sent[2] = {runner.sent(phase).intra, runner.sent(phase).inter};
    ho::test::must(
        ho_all_reduce(comm, sent, sent, 2, HO_UINT64, HO_SUM, nullptr, nullptr, nullptr));
    const Traffic wanted = planned.of(phase);
    if (wrong.empty() &&
        (sent[0] != steps * wanted.intra_bytes || sent[1] != steps * wanted.inter_bytes)) {
      wrong = std::string(to_string(phase)) + " sent " + std::to_string(sent[0]) +
              " bytes inside and " + std::to_string(sent[1]) + " between groups in " +
              std::to_string(steps) +
              " steps; planned for one: " + std::to_string(wanted.intra_bytes) + " and " +
              std::to_string(wanted.inter_bytes);
    }
  }
  return wrong;
}

std::string wrong_memory(const StepRunner& runner) {
  const MemoryUse predicted = predicted_use(runner.shards(), runner.plan());
  for (size_t purpose = 0; purpose < kPurposeCount; ++purpose) {
    const auto name = static_cast<Purpose>(purpose);
    if (name != Purpose::kScratch && runner.shards().ledger.now()[name] != predicted[name]) {
      return std::string(to_string(name)) + ": " +
             std::to_string(runner.shards().ledger.now()[name]) + " bytes, predicted " +
             std::to_string(predicted[name]);
    }
  }
  const uint64_t peak = runner.shards().ledger.peak().total();
  if (peak > predicted.total()) {
    return "the peak was " + std::to_string(peak) + " bytes, predicted " +
           std::to_string(predicted.total());
  }
  return "";
}

}  // namespace

std::string to_string(const Training& training) {
  const RunnerConfig& runner = training.runner;
  return letters(runner.strategy) + ", " + std::to_string(runner.micro_batches) +
         " micro-batches, parameters " + std::string(ho::to_string(runner.parameter_dtype)) +
         ", buckets of " + std::to_string(runner.bucket_bytes) + " bytes, frozen parameters " +
         letter(runner.frozen) + (training.model.tie_head ? ", a tied head" : "");
}

std::string difference(const Outcome& sharded, const Outcome& alone, const Tolerance& tolerance) {
  for (size_t step = 0; step < alone.steps.size(); ++step) {
    const auto& is = sharded.steps[step];
    const auto& should = alone.steps[step];
    const std::string where = "step " + std::to_string(step) + ": ";
    if (is.applied != should.applied) {
      return where + (is.applied ? "applied" : "left out") + ", alone it was not";
    }
    if (!near(is.loss, should.loss, tolerance.loss)) {
      return where + "loss " + number(is.loss) + ", alone " + number(should.loss);
    }
    if (should.applied && !near(is.norm, should.norm, tolerance.norm)) {
      return where + "norm " + number(is.norm) + ", alone " + number(should.norm);
    }
  }
  for (size_t unit = 0; unit < alone.masters.size(); ++unit) {
    for (size_t i = 0; i < alone.masters[unit].size(); ++i) {
      const auto is = static_cast<double>(sharded.masters[unit][i]);
      const auto should = static_cast<double>(alone.masters[unit][i]);
      if (!(std::abs(is - should) <= tolerance.master)) {
        return "unit " + std::to_string(unit) + ", master " + std::to_string(i) + ": " +
               number(is) + ", alone " + number(should);
      }
    }
  }
  return "";
}

std::string train_and_compare(ho_comm* comm,
                              const ho::GroupMap& groups,
                              const Training& training,
                              const Outcome& alone,
                              const Tolerance& tolerance) {
  std::string wrong;
  uint32_t steps = 0;
  const auto outcome = train_sharded(comm, groups, training, [&](StepRunner& runner) -> ho::Status {
    if (++steps == training.steps) {
      HORING_TRY(runner.between_steps().check_drift());
      wrong = wrong_bytes(comm, groups, runner, steps);
      wrong += wrong.empty() ? wrong_memory(runner) : "";
    }
    return {};
  });
  if (!outcome.ok()) {
    return outcome.status().to_string();
  }
  const std::string differs = difference(*outcome, alone, tolerance);
  return differs.empty() ? wrong : differs;
}

Training hard_training(const Strategy& strategy, uint32_t micro_batches) {
  Training training;
  // Sizes that no number of ranks divides; the gain is one element.
  training.model.vocabulary = 13;
  training.model.dim = 7;
  training.model.hidden = 11;
  training.model.blocks = 1;
  training.model.sequence = 5;
  training.model.freeze_up = micro_batches == 1;
  training.model.freeze_embedding = micro_batches == 1;
  training.model.poison = toy::Poison{7, 3, 2};
  training.samples = 1;
  training.runner.strategy = strategy;
  training.runner.frozen = strategy.parameters;
  training.runner.micro_batches = micro_batches;
  training.runner.alignment = 4;
  training.runner.bucket_bytes = 0;
  training.runner.max_norm = 0.5;
  training.runner.loss_scale.scaling = Scaling::kNone;
  if (micro_batches == 1) {
    training.runner.rule = AdamW{0.01, 0.9, 0.95, 1e-6, 0.01};
  } else {
    training.runner.rule = Sgd{0.1, 0.9, 0.001};
  }
  return training;
}

Training bucketed_training(const Strategy& strategy, uint32_t micro_batches) {
  Training training = hard_training(strategy, micro_batches);
  training.model.blocks = 3;
  training.steps = 12;
  // Another scope than the parameters': all ranks where parameters are not split, so that sync-p
  // and the gathers of what is frozen have one communicator.
  training.runner.frozen = static_cast<Scope>((static_cast<int>(strategy.parameters) + 2) % 3);
  // Head, gain and a block; two blocks; the embedding, if it is trained.
  training.runner.bucket_bytes = micro_batches == 1 ? 2400 : 3200;
  return training;
}

Training tied_training(const Strategy& strategy, uint32_t micro_batches) {
  Training training = bucketed_training(strategy, micro_batches);
  training.model.tie_head = true;
  training.model.freeze_embedding = false;
  return training;
}

std::vector<std::string> complaints(const char* nodes,
                                    const std::vector<Training>& trainings,
                                    const Tolerance& tolerance,
                                    const ho::GroupMap* groups) {
  const uint32_t world = ho::GroupMap::parse(nodes)->world_size();
  std::vector<Outcome> alone;
  alone.reserve(trainings.size());
  for (const Training& training : trainings) {
    alone.push_back(train_single_rank(world, training));
  }
  std::vector<std::vector<std::string>> by_rank(world);
  ho::test::JobOptions options;
  options.groups = nodes;
  const auto errors = ho::test::run_job(options, [&](ho_comm* comm) {
    auto& mine = by_rank[static_cast<size_t>(ho_comm_rank(comm))];
    const ho::GroupMap split_over = groups != nullptr ? *groups : nodes_of(comm).value();
    for (size_t i = 0; i < trainings.size(); ++i) {
      mine.push_back(train_and_compare(comm, split_over, trainings[i], alone[i], tolerance));
    }
  });
  std::vector<std::string> first(trainings.size());
  for (uint32_t rank = 0; rank < world; ++rank) {
    by_rank[rank].resize(trainings.size(), "rank " + std::to_string(rank) + ": " + errors[rank]);
    for (size_t i = 0; i < trainings.size(); ++i) {
      if (first[i].empty() && !by_rank[rank][i].empty()) {
        first[i] = "rank " + std::to_string(rank) + ": " + by_rank[rank][i];
      }
    }
  }
  return first;
}

}  // namespace paro::test
