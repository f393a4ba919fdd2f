#include "cli/paro/trial_report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/subcommands/table.hpp"

namespace paro::tool {
namespace {

std::string ms(double seconds) {
  return seconds < 0 ? "-" : ho::milliseconds(seconds);
}

std::string sent(const Trial& trial, uint64_t bytes) {
  return trial.sent_is_known ? ho::megabytes(bytes) : "-";
}
nlohmann::json sent_or_null(const Trial& trial, uint64_t bytes) {
  return trial.sent_is_known ? nlohmann::json(bytes) : nlohmann::json(nullptr);
}

// A change of strategy moves data of its own, which is in no step's plan.
std::string as_planned(const Trial& trial) {
  if (trial.strategy_since > trial.first_step || !trial.sent_is_known) {
    return "-";
  }
  return trial.sent == trial.planned ? "yes" : "NO";
}

std::string applied(const Trial& trial) {
  return std::to_string(trial.applied_steps) + " of " + std::to_string(trial.steps);
}

std::string single_rank_loss(const Trial& trial) {
  return trial.same_batches ? ho::fixed(trial.single_rank_loss, 5) : "-";
}

bool has_loss_scale(const Trial& trial) {
  return trial.dtype == ho::DType::kFloat16;
}

// Of the loss, relative: far more than rounding causes.
double tolerance(ho::DType dtype) {
  switch (dtype) {
    case ho::DType::kFloat16:
      return 2e-2;
    case ho::DType::kBfloat16:
      return 5e-2;
    default:
      return 1e-3;
  }
}

bool like_one_rank(const Trial& trial) {
  return !trial.same_batches || std::abs(trial.loss - trial.single_rank_loss) <=
                                    tolerance(trial.dtype) * std::abs(trial.single_rank_loss);
}

using Field = ho::Field<Trial>;

constexpr std::array kFields{
    Field{"strategy", true, [](const Trial& trial) { return letters(trial.strategy); }},
    Field{"step ms", false, [](const Trial& trial) { return ms(trial.times.step); }},
    Field{"compute", false, [](const Trial& trial) { return ms(trial.times.compute); }},
    Field{"exposed", false, [](const Trial& trial) { return ms(trial.times.exposed); }},
    Field{"idle", false, [](const Trial& trial) { return ms(trial.times.idle); }},
    Field{"update", false, [](const Trial& trial) { return ms(trial.times.update); }},
    Field{"hooks", false, [](const Trial& trial) { return ms(trial.times.hooks); }},
    Field{"exposed by plan", false, [](const Trial& trial) { return ms(trial.predicted_exposed); }},
    Field{
        "MB inside", false, [](const Trial& trial) { return sent(trial, trial.sent.intra_bytes); }},
    Field{"MB between",
          false,
          [](const Trial& trial) { return sent(trial, trial.sent.inter_bytes); }},
    Field{"as planned", true, [](const Trial& trial) { return as_planned(trial); }},
    Field{"memory MB",
          false,
          [](const Trial& trial) { return ho::megabytes(trial.memory.actual.total()); }},
    Field{"predicted",
          false,
          [](const Trial& trial) { return ho::megabytes(trial.memory.predicted.total()); }},
    Field{"loss", false, [](const Trial& trial) { return ho::fixed(trial.loss, 5); }},
    Field{"one rank's", false, [](const Trial& trial) { return single_rank_loss(trial); }},
};
// Where steps were left out.
constexpr Field kApplied{"applied", false, [](const Trial& trial) { return applied(trial); }};

nlohmann::json json_of(const Trial& trial) {
  const StepTimes& times = trial.times;
  return {{"strategy", letters(trial.strategy)},
          {"step_s", times.step},
          {"compute_s", times.compute},
          {"exposed_s", times.exposed},
          {"idle_s", times.idle},
          {"update_s", times.update},
          {"hooks_s", times.hooks},
          {"per_hook_s", times.per_hook},
          {"predicted_exposed_s", trial.predicted_exposed},
          {"steps", trial.steps},
          {"first_step", trial.first_step},
          {"strategy_since_step", trial.strategy_since},
          {"applied_steps", trial.applied_steps},
          {"intra_bytes", sent_or_null(trial, trial.sent.intra_bytes)},
          {"inter_bytes", sent_or_null(trial, trial.sent.inter_bytes)},
          {"planned_intra_bytes", trial.planned.intra_bytes},
          {"planned_inter_bytes", trial.planned.inter_bytes},
          {"memory_bytes", trial.memory.actual.total()},
          {"predicted_memory_bytes", trial.memory.predicted.total()},
          {"loss", trial.loss},
          {"single_rank_loss",
           trial.same_batches ? nlohmann::json(trial.single_rank_loss) : nlohmann::json(nullptr)}};
}

}  // namespace

std::string trials_text(const std::vector<Trial>& trials) {
  const bool all_applied = std::all_of(trials.begin(), trials.end(), [](const Trial& trial) {
    return trial.applied_steps == trial.steps;
  });
  std::vector<ho::Column> columns = ho::columns_of(kFields, trials);
  if (!all_applied) {
    columns.push_back(ho::column_of(kApplied, trials));
  }
  std::string text =
      ho::aligned(columns) +
      "Times per step in ms, bytes per step over all ranks, memory of the fullest rank.\n";
  if (!all_applied) {
    text +=
        has_loss_scale(trials.front())
            ? "Steps were left out because a gradient was not finite, as happens while the loss "
              "scale settles; the\nsingle-rank baseline has no loss scale and left none out, so "
              "its "
              "loss is that of more steps.\n"
            : "Steps were left out because a gradient was not finite.\n";
  }
  return text;
}

std::vector<std::string> warnings(const std::vector<Trial>& trials) {
  std::vector<std::string> all;
  for (const Trial& trial : trials) {
    const bool whole = trial.applied_steps == trial.steps;
    if (trial.applied_steps == 0 || (!whole && !has_loss_scale(trial))) {
      all.push_back(letters(trial.strategy) + ": " + applied(trial) +
                    " steps were applied: a gradient was not finite" +
                    (has_loss_scale(trial) ? "; the loss scale needs more steps to settle" : ""));
    } else if (whole && trial.steps <= kMaxComparedSteps && !like_one_rank(trial)) {
      all.push_back(letters(trial.strategy) + ": the loss is " + ho::fixed(trial.loss, 5) +
                    ", one rank's is " + single_rank_loss(trial) +
                    ": further away than rounding explains");
    }
  }
  return all;
}

std::string trials_json(const std::vector<Trial>& trials) {
  nlohmann::json all = nlohmann::json::array();
  for (const Trial& trial : trials) {
    all.push_back(json_of(trial));
  }
  return all.dump(1) + "\n";
}

}  // namespace paro::tool
