#include "cli/paro/train_command.hpp"

#include <cstdio>
#include <optional>

#include "base/escaped.hpp"
#include "cli/paro/job/measure.hpp"
#include "cli/paro/train_options.hpp"
#include "cli/paro/trial.hpp"
#include "cli/subcommands/output_file.hpp"

namespace paro::tool {
namespace {

constexpr const char* kTrain = "paro train";

toy::Training training_of(const TrainOptions& options, const Strategy& strategy) {
  toy::Training training;
  training.steps = options.steps;
  training.samples = 1;
  training.model.blocks = options.units - kUnitsBesideBlocks;
  training.unit_elements = options.unit_elements;
  training.forward_time = std::chrono::nanoseconds(static_cast<int64_t>(options.forward_ms * 1e6));
  training.runner.strategy = strategy;
  training.runner.frozen = strategy.parameters;
  training.runner.micro_batches = options.accumulation;
  training.runner.prefetch = options.prefetch;
  training.runner.bucket_bytes = options.bucket_bytes;
  training.runner.parameter_dtype = options.dtype;
  training.runner.gradient_dtype = options.dtype;
  training.runner.fp32_gradients = options.fp32_gradients;
  training.runner.budget_bytes = options.budget_bytes;
  training.runner.max_norm = 1;
  training.runner.rule = AdamW{0.01, 0.9, 0.95, 1e-6, 0.01};
  if (options.dtype != ho::DType::kFloat16) {
    training.runner.loss_scale.scaling = Scaling::kNone;
  }
  return training;
}

// Links as measured in this job; a world of no ranks where the planner's formulas do not hold.
PlannerRequest measured_links(horing::Communicator& job) {
  PlannerRequest request;
  std::vector<std::string> notes;
  const auto facts = facts_of(measure_job(job), notes);
  const ho::Status status = facts.ok() ? apply(*facts, request) : facts.status();
  if (!status.ok()) {
    if (job.rank() == 0) {
      std::fprintf(stderr,
                   "paro train: the plan's figures are left out: %s\n",
                   ho::message_text(status.message()).c_str());
    }
    request.world = {0, 0};
  }
  return request;
}

// All ranks go on with rank 0's status. No rank leaves before rank 0 has printed.
int32_t agreed(horing::Communicator& job, int32_t status) {
  job.broadcast(std::span<int32_t>(&status, 1), 0);
  return status;
}

// Nothing where the strategy is over the budget, which rank 0 prints; all ranks have the same
// result.
std::optional<Trial> try_within_budget(horing::Communicator& job,
                                       const toy::Training& training,
                                       const SaveSettings& saving,
                                       const PlannerRequest& request) {
  try {
    return try_strategy(job, training, saving, request);
  } catch (const horing::Error& error) {
    if (training.runner.budget_bytes == 0 || error.status() != HO_OUT_OF_MEMORY) {
      throw;
    }
    if (job.rank() == 0) {
      std::fprintf(stderr, "paro train: --budget: %s\n", error.what());
    }
    return std::nullopt;
  }
}

int train(const TrainOptions& options) {
  horing::CommunicatorOptions with_device;
  with_device.device = options.on_device ? HO_DEVICE_LOCAL_RANK : HO_DEVICE_NONE;
  auto job = horing::Communicator::create(with_device);
  if (agreed(job, job.rank() != 0 || ho::can_write_file(kTrain, "--json", options.json) ? 0 : 1) !=
      0) {
    return 1;
  }
  const PlannerRequest request = measured_links(job);
  std::vector<Trial> trials;
  double alone = 0;
  size_t number = 0;
  const SaveSettings saving{options.save, options.save_every, options.resume};
  for (const Strategy& strategy : options.strategies) {
    const toy::Training training = training_of(options, strategy);
    if (job.rank() == 0) {
      const std::string name = letters(strategy);
      std::fprintf(stderr, "[%zu/%zu] %s\n", ++number, options.strategies.size(), name.c_str());
    }
    auto trial = try_within_budget(job, training, saving, request);
    if (!trial) {
      continue;
    }
    if (trials.empty() && job.rank() == 0) {
      alone =
          train_single_rank(static_cast<uint32_t>(job.world_size()), training).steps.back().loss;
    }
    trial->single_rank_loss = alone;
    trials.push_back(*trial);
  }
  int32_t status = trials.empty() ? 1 : 0;
  if (job.rank() == 0 && !trials.empty()) {
    std::fputs(trials_text(trials).c_str(), stdout);
    const auto wrong = warnings(trials);
    for (const std::string& line : wrong) {
      std::fprintf(stderr, "paro train: %s\n", line.c_str());
    }
    const bool written = ho::write_file(kTrain, "--json", options.json, trials_json(trials));
    status = written && wrong.empty() ? 0 : 1;
  }
  return agreed(job, status);
}

}  // namespace

int train_command(int argc, const char* const* argv) {
  const ho::Parsed<TrainOptions> parsed = parse_train_options(argc, argv);
  if (parsed.exit_status) {
    return *parsed.exit_status;
  }
  try {
    return train(parsed.options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "paro train: %s\n", error.what());
    return 1;
  }
}

}  // namespace paro::tool
