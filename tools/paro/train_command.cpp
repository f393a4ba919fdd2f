#include "paro/train_command.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "paro/columns.hpp"
#include "paro/measure.hpp"
#include "paro/trial.hpp"
#include "subcommands/option_error.hpp"

namespace paro::tool {
namespace {

struct TrainOptions {
  std::string strategy = "all";
  std::string dtype = "float32";
  std::string json;
  uint32_t steps = 12;
  uint32_t accumulation = 1;
  uint32_t prefetch = 1;
  uint64_t unit_elements = 0;
  double forward_ms = 0;
};

ho::DType dtype_of(const std::string& name) {
  if (name == "bfloat16") {
    return ho::DType::kBfloat16;
  }
  return name == "float16" ? ho::DType::kFloat16 : ho::DType::kFloat32;
}

std::vector<Strategy> strategies_of(const std::string& text) {
  if (text == "all") {
    return {all_strategies().begin(), all_strategies().end()};
  }
  const auto one = parse_strategy(text);
  if (!one.ok()) {
    throw CLI::ValidationError("--strategy", one.status().message());
  }
  return {*one};
}

toy::Training training_of(const TrainOptions& options, const Strategy& strategy) {
  toy::Training training;
  training.steps = options.steps;
  training.samples = 1;
  training.unit_elements = options.unit_elements;
  training.forward_time = std::chrono::nanoseconds(static_cast<int64_t>(options.forward_ms * 1e6));
  training.runner.strategy = strategy;
  training.runner.frozen = strategy.parameters;
  training.runner.micro_batches = options.accumulation;
  training.runner.prefetch = options.prefetch;
  training.runner.parameter_dtype = dtype_of(options.dtype);
  training.runner.gradient_dtype = dtype_of(options.dtype);
  training.runner.max_norm = 1;
  training.runner.rule = AdamW{0.01, 0.9, 0.95, 1e-6, 0.01};
  if (options.dtype != "float16") {
    training.runner.loss_scale.scaling = Scaling::kNone;
  }
  return training;
}

// Links as measured in this job; a world of no ranks where the planner's formulas do not hold.
PlanRequest measured_links(horing::Communicator& job) {
  PlanRequest request;
  std::vector<std::string> notes;
  const auto facts = facts_of(measure_job(job), notes);
  const ho::Status status = facts.ok() ? apply(*facts, request) : facts.status();
  if (!status.ok()) {
    if (job.rank() == 0) {
      std::fprintf(
          stderr, "paro train: what the plan says is left out: %s\n", status.message().c_str());
    }
    request.world = {0, 0};
  }
  return request;
}

std::string number(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string ms(double seconds) {
  return seconds < 0 ? "-" : number(seconds * 1e3, 1);
}

std::string megabytes(uint64_t bytes) {
  return number(static_cast<double>(bytes) / 1e6, 2);
}

std::string table(const std::vector<Trial>& trials) {
  std::vector<Column> columns{{"strategy", true, {}},
                              {"step ms", false, {}},
                              {"compute", false, {}},
                              {"exposed", false, {}},
                              {"idle", false, {}},
                              {"update", false, {}},
                              {"hooks", false, {}},
                              {"exposed by plan", false, {}},
                              {"MB inside", false, {}},
                              {"MB between", false, {}},
                              {"as planned", true, {}},
                              {"memory MB", false, {}},
                              {"predicted", false, {}},
                              {"loss", false, {}},
                              {"one rank's", false, {}}};
  for (const Trial& trial : trials) {
    const TrialTimes& times = trial.times;
    const std::vector<std::string> cells{letters(trial.strategy),
                                         ms(times.step),
                                         ms(times.compute),
                                         ms(times.exposed),
                                         ms(times.idle),
                                         ms(times.update),
                                         ms(times.hooks),
                                         ms(trial.predicted_exposed),
                                         megabytes(trial.sent.intra_bytes),
                                         megabytes(trial.sent.inter_bytes),
                                         trial.sent == trial.planned ? "yes" : "NO",
                                         megabytes(trial.actual_bytes),
                                         megabytes(trial.predicted_bytes),
                                         number(trial.loss, 5),
                                         number(trial.loss_alone, 5)};
    for (size_t i = 0; i < cells.size(); ++i) {
      columns[i].cells.push_back(cells[i]);
    }
  }
  return aligned(columns);
}

nlohmann::json json_of(const Trial& trial) {
  const TrialTimes& times = trial.times;
  return {{"strategy", letters(trial.strategy)},
          {"step_s", times.step},
          {"compute_s", times.compute},
          {"exposed_s", times.exposed},
          {"idle_s", times.idle},
          {"update_s", times.update},
          {"hooks_s", times.hooks},
          {"per_hook_s", times.per_hook},
          {"predicted_exposed_s", trial.predicted_exposed},
          {"intra_bytes", trial.sent.intra_bytes},
          {"inter_bytes", trial.sent.inter_bytes},
          {"planned_intra_bytes", trial.planned.intra_bytes},
          {"planned_inter_bytes", trial.planned.inter_bytes},
          {"memory_bytes", trial.actual_bytes},
          {"predicted_memory_bytes", trial.predicted_bytes},
          {"loss", trial.loss},
          {"loss_alone", trial.loss_alone}};
}

bool write_json(const std::string& path, const std::vector<Trial>& trials) {
  nlohmann::json all = nlohmann::json::array();
  for (const Trial& trial : trials) {
    all.push_back(json_of(trial));
  }
  std::ofstream file(path);
  file << all.dump(1) << "\n";
  file.flush();
  if (!file) {
    std::fprintf(stderr, "paro train: cannot write %s\n", path.c_str());
  }
  return static_cast<bool>(file);
}

int train(const TrainOptions& options, const std::vector<Strategy>& strategies) {
  auto job = horing::Communicator::create();
  const PlanRequest request = measured_links(job);
  std::vector<Trial> trials;
  double alone = 0;
  for (const Strategy& strategy : strategies) {
    const toy::Training training = training_of(options, strategy);
    if (trials.empty() && job.rank() == 0) {
      alone = train_alone(static_cast<uint32_t>(job.world_size()), training).steps.back().loss;
    }
    if (job.rank() == 0) {
      std::fprintf(stderr,
                   "[%zu/%zu] %s\n",
                   trials.size() + 1,
                   strategies.size(),
                   letters(strategy).c_str());
    }
    trials.push_back(try_strategy(job, training, request));
    trials.back().loss_alone = alone;
  }
  int32_t status = 0;
  if (job.rank() == 0) {
    std::fputs(table(trials).c_str(), stdout);
    std::printf(
        "Times per step in ms, bytes per step over all ranks, memory of the fullest rank.\n");
    status = options.json.empty() || write_json(options.json, trials) ? 0 : 1;
  }
  // Nobody leaves before rank 0 has spoken.
  job.broadcast(std::span<int32_t>(&status, 1), 0);
  return status;
}

}  // namespace

int train_command(int argc, const char* const* argv) {
  TrainOptions options;
  CLI::App app(
      "Trains a small language model in this job (start it with `horing run`), with one strategy "
      "or "
      "with all 14 in turn, and tells what each step took, sent and held, beside what the step "
      "plan "
      "says.",
      "paro train");
  app.add_option("--strategy", options.strategy, "letters, a known name, or all [all]");
  app.add_option("--steps", options.steps, "[12]")->check(CLI::Range(3, 1000000));
  app.add_option("--accumulation", options.accumulation, "micro-batches per step [1]")
      ->check(CLI::Range(1, 1024));
  app.add_option("--prefetch", options.prefetch, "units gathered ahead [1]")
      ->check(CLI::Range(0, 3));
  app.add_option("--dtype", options.dtype, "of parameters and gradients [float32]")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}));
  app.add_option("--unit-elements",
                 options.unit_elements,
                 "fill every unit up to so many parameters [0: none]")
      ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 28U));
  app.add_option("--forward-ms",
                 options.forward_ms,
                 "least time of a unit's forward pass, backward twice that, as on a device [0]")
      ->check(CLI::Range(0.0, 10000.0));
  app.add_option("--json", options.json, "write everything measured to this file (rank 0)");
  std::vector<Strategy> strategies;
  try {
    app.parse(argc, argv);
    strategies = strategies_of(options.strategy);
  } catch (const CLI::ParseError& error) {
    return ho::exit_after(app, error);
  }
  try {
    return train(options, strategies);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "paro train: %s\n", error.what());
    return 1;
  }
}

}  // namespace paro::tool
