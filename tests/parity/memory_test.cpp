// What a runner keeps its sums in, what it takes and what it does when there is no more.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "job.hpp"
#include "optim/gradients.hpp"
#include "run/budget.hpp"
#include "run/step_runner.hpp"

using namespace paro;
using ho::test::require_job;

namespace {

// Host memory that can run out.
class EmptyableMemory final : public Memory {
 public:
  [[nodiscard]] void* allocate(size_t bytes) override {
    return empty ? nullptr : host_.allocate(bytes);
  }
  void release(void* address, size_t bytes) override { host_.release(address, bytes); }
  [[nodiscard]] const Operations& operations(size_t number = 0) const override {
    return host_.operations(number);
  }
  bool empty = false;

 private:
  HostMemory host_;
};

void expect(bool kept, const std::string& promise) {
  if (!kept) {
    throw std::runtime_error("broken promise: " + promise);
  }
}

void expect(const ho::Status& status) {
  expect(status.ok(), status.to_string());
}

template <typename T>
T must(ho::Result<T> result) {
  expect(result.status());
  return std::move(result).value();
}

RunnerConfig config_for(const Strategy& strategy, uint64_t bucket_bytes = 0) {
  RunnerConfig config;
  config.bucket_bytes = bucket_bytes;
  config.strategy = strategy;
  config.frozen = strategy.parameters;
  config.units = {{"a", 37, 0}, {"b", 8, 5}};
  config.alignment = 4;
  config.rule = Sgd{1.0, 0, 0};
  config.loss_scale.scaling = Scaling::kNone;
  return config;
}

// Every gradient is `value`.
void compute(StepRunner& runner, float value) {
  const uint32_t units = static_cast<uint32_t>(runner.config().units.size());
  for (uint32_t k = 0; k < runner.config().micro_batches; ++k) {
    for (uint32_t u = 0; u < units; ++u) {
      expect(runner.before_forward(u).status());
      expect(runner.after_forward(u));
    }
    for (uint32_t u = units; u-- > 0;) {
      const UnitView view = must(runner.before_backward(u));
      std::vector<float> gradients(runner.config().units[u].trained);
      const ho::DType dtype = runner.config().gradient_dtype;
      unscale(dtype, view.gradients, 1, gradients);
      for (float& gradient : gradients) {
        gradient += value;
      }
      round_to(dtype, gradients, view.gradients);
      expect(runner.after_backward(u));
    }
  }
}

// What of a step has ended, by its plan.
class Progress {
 public:
  // Before the runner is made, and outlives it.
  explicit Progress(RunnerConfig& config) {
    config.watch = [this](const ActionSpan& span) {
      if (span.step_action.step.value == step) {
        ended_.insert(span.step_action.action);
      }
    };
  }
  // As if a computation took so long: until nothing moves that can move by now.
  void settle(StepRunner& runner) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (moves(runner.plan())) {
      expect(runner.poll());
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      expect(std::chrono::steady_clock::now() < deadline, "what may start does");
    }
  }
  void next_step() {
    ended_.clear();
    ++step;
  }
  uint64_t step = 0;

 private:
  [[nodiscard]] bool moves(const StepPlan& plan) const {
    const auto has_ended = [&](ActionId id) { return ended_.contains(id); };
    for (ActionId id; id.at() < plan.actions.size(); ++id) {
      const Action& action = plan.actions[id.at()];
      if (is_collective(action.act) && action.act != Act::kAgree && !has_ended(id) &&
          std::all_of(action.after.begin(), action.after.end(), has_ended)) {
        return true;
      }
    }
    return false;
  }

  std::set<ActionId> ended_;
};

void check_peak(ho_comm* comm, RunnerConfig config) {
  Progress progress(config);
  HostMemory memory;
  const auto runner = must(StepRunner::create(comm, must(nodes_of(comm)), config, memory));
  const auto units = static_cast<uint32_t>(config.units.size());
  for (int step = 0; step < 2; ++step, progress.next_step()) {
    for (uint32_t k = 0; k < config.micro_batches; ++k) {
      for (uint32_t u = 0; u < units; ++u) {
        expect(runner->before_forward(u).status());
        progress.settle(*runner);
        expect(runner->after_forward(u));
      }
      for (uint32_t u = units; u-- > 0;) {
        expect(runner->before_backward(u).status());
        progress.settle(*runner);
        expect(runner->after_backward(u));
      }
    }
    expect(must(runner->step()).outcome.applied, "applies");
    expect(runner->synchronize());
  }
  const uint64_t predicted = predicted_use(runner->shards(), runner->plan()).total();
  const uint64_t peak = runner->shards().ledger.peak().total();
  expect(peak == predicted,
         letters(config.strategy) + " with " + std::to_string(units) + " units, " +
             std::to_string(config.micro_batches) + " micro-batches: " + std::to_string(peak) +
             " bytes of " + std::to_string(predicted) + " predicted");
}

void check_prediction(ho_comm* comm, const Strategy& strategy, uint64_t bucket_bytes) {
  const ho::GroupMap groups = must(nodes_of(comm));
  HostMemory memory;
  RunnerConfig config = config_for(strategy, bucket_bytes);
  const auto runner = must(StepRunner::create(comm, groups, config, memory));
  const bool merges =
      std::any_of(runner->plan().actions.begin(), runner->plan().actions.end(), is_merged);
  expect(merges == (bucket_bytes > 0), letters(strategy) + " has buckets where they are asked for");
  compute(*runner, 1);
  expect(must(runner->step()).outcome.applied, "applies");
  expect(runner->synchronize());
  const MemoryUse predicted = predicted_use(runner->shards(), runner->plan());
  expect(runner->shards().ledger.peak().total() <= predicted.total(),
         letters(strategy) + " predicts the peak");
  expect(groups.to_string() != "2x2" ||
             runner->shards().ledger.now()[Purpose::kScratch] == predicted[Purpose::kScratch],
         letters(strategy) + " predicts what equal groups pack in");
  uint64_t most = predicted.total();
  ho::test::must(
      ho_all_reduce(comm, &most, &most, 1, HO_UINT64, HO_MAX, nullptr, nullptr, nullptr));
  config.budget_bytes = most;
  expect(StepRunner::create(comm, groups, config, memory).status());
  config.budget_bytes = most - 1;
  const auto refused = StepRunner::create(comm, groups, config, memory);
  expect(refused.status().code() == ho::StatusCode::kOutOfMemory,
         letters(strategy) + " refuses a byte less");
}

}  // namespace

TEST_CASE("many small gradients of 16 bits are not lost in their sum", "[memory]") {
  constexpr uint32_t kMicroBatches = 300;
  for (const char* triple : {"NNN", "NIG", "INI", "IIG", "GGG"}) {
    const Strategy strategy = parse_strategy(triple).value();
    require_job({"2x2"}, [&](ho_comm* comm) {
      RunnerConfig config = config_for(strategy);
      config.parameter_dtype = ho::DType::kBfloat16;
      config.gradient_dtype = ho::DType::kBfloat16;
      config.micro_batches = kMicroBatches;
      HostMemory memory;
      const auto runner =
          must(StepRunner::create(comm, must(nodes_of(comm)), std::move(config), memory));
      for (uint32_t step = 1; step <= 2; ++step) {
        compute(*runner, 1);
        expect(must(runner->step()).outcome.applied, "applies");
        std::vector<float> masters(37);
        expect(runner->between_steps().read_masters(0, masters));
        for (const float master : masters) {
          // bf16 has 8 bits: the sum over micro-batches is rounded once, that over ranks twice.
          expect(std::abs(master + static_cast<float>(step)) < 0.02F * static_cast<float>(step),
                 letters(strategy) + ": a step of 1 moved a master to " + std::to_string(master));
        }
      }
    });
  }
}

TEST_CASE("what is packed and reordered is in the prediction and in the budget", "[memory]") {
  for (const char* nodes : {"2x2", "3+1", "1+1+2"}) {
    require_job({nodes}, [&](ho_comm* comm) {
      for (const Strategy& strategy : all_strategies()) {
        check_prediction(comm, strategy, 0);
        check_prediction(comm, strategy, 1024);
      }
    });
  }
}

TEST_CASE("the peak is what was predicted", "[peak]") {
  // Where a gather and a reduction may overlap, they do so when computations take long, and units
  // are equal or there is only one.
  for (const char* nodes : {"3+1", "1+1+2"}) {
    require_job({nodes}, [&](ho_comm* comm) {
      for (const Strategy& strategy : all_strategies()) {
        RunnerConfig config = config_for(strategy);
        config.units = {{"only", 4000, 0}};
        check_peak(comm, config);
        config.micro_batches = 2;
        check_peak(comm, config);
        config.units = {{"head", 4000, 3000}, {"block", 4000, 3000}, {"tail", 4000, 3000}};
        config.micro_batches = 1;
        check_peak(comm, config);
        // Elsewhere a slot's second gather is the one over the world. It begins when the first is
        // over, and by then the reduction may be too.
        if (strategy.parameters != Scope::kGroup) {
          config.frozen = Scope::kWorld;
          check_peak(comm, config);
        }
      }
    });
  }
}

TEST_CASE("a rejoin that fails half way leaves a broken runner", "[memory]") {
  ho::test::JobOptions options;
  options.groups = "3+1";
  options.timeout_ms = 60000;
  require_job(options, [](ho_comm* comm) {
    EmptyableMemory memory;
    const auto runner = must(StepRunner::create(
        comm, must(nodes_of(comm)), config_for(parse_strategy("NNG").value()), memory));
    compute(*runner, 1);
    expect(must(runner->step()).outcome.applied, "applies");
    expect(runner->synchronize());
    ho_comm* again = nullptr;
    ho::test::must(ho_comm_split(comm, 0, ho_comm_rank(comm), &again));
    memory.empty = true;
    const ho::Status failed = runner->rejoin(again);
    expect(!failed.ok(), "fails");
    expect(failed.message().find("unit ") != std::string::npos,
           "names the unit: " + failed.message());
    const auto view = runner->before_forward(0);
    expect(!view.ok(), "gives out no parameters after that");
    ho_comm_destroy(again);
  });
}
