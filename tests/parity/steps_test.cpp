// Steps of a number of micro-batches that changes.
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "catch.hpp"
#include "job.hpp"
#include "optim/gradients.hpp"
#include "run/step_runner.hpp"

using namespace paro;

namespace {

constexpr uint32_t kMaxBatches = 3;  // micro-batches
constexpr float kGradient = 0.25F;

void throw_unless_ok(const ho::Status& status) {
  if (!status.ok()) {
    throw std::runtime_error(status.message());
  }
}

void micro_batch(StepRunner& runner) {
  const RunnerConfig& config = runner.config();
  for (uint32_t u = 0; u < config.units.size(); ++u) {
    throw_unless_ok(runner.before_forward(u).status());
    throw_unless_ok(runner.after_forward(u));
  }
  for (auto u = static_cast<uint32_t>(config.units.size()); u-- > 0;) {
    const auto view = runner.before_backward(u);
    throw_unless_ok(view.status());
    const size_t count = config.units[u].trained;
    const std::vector<float> gradient(count, kGradient);
    std::vector<float> narrow(count);  // room enough
    round_to(config.gradient_dtype, gradient, narrow.data());
    accumulate(config.gradient_dtype, view->gradients, narrow.data(), count);
    throw_unless_ok(runner.after_backward(u));
  }
}

// Each step takes kGradient away, of however many micro-batches it is.
void train_early(ho_comm* comm, const RunnerConfig& config) {
  HostMemory memory;
  auto made = StepRunner::create(comm, nodes_of(comm).value(), config, memory);
  throw_unless_ok(made.status());
  StepRunner& runner = **made;
  const std::vector<float> ones(config.units[0].trained, 1);
  throw_unless_ok(runner.between_steps().load(0, ones, {}));
  float expected = 1;
  for (const uint32_t count : {1U, 3U, 2U, 3U, 1U}) {
    for (uint32_t k = 0; k < count; ++k) {
      micro_batch(runner);
    }
    const auto report = count < kMaxBatches ? runner.step_early() : runner.step();
    throw_unless_ok(report.status());
    expected -= kGradient;
    std::vector<float> masters(ones.size());
    throw_unless_ok(runner.between_steps().read_masters(0, masters));
    for (const float master : masters) {
      if (!report->outcome.applied || report->micro_batches != count ||
          std::abs(master - expected) > 1e-5F) {
        throw std::runtime_error(letters(config.strategy) + ": a step of " + std::to_string(count) +
                                 " micro-batches leaves " + std::to_string(master) + ", not " +
                                 std::to_string(expected));
      }
    }
  }
}

}  // namespace

TEST_CASE("a step of 16 bits that ends early is as one that was planned so", "[steps]") {
  for (const char* nodes : {"2x2", "3+1"}) {
    ho::test::require_job({nodes}, [](ho_comm* comm) {
      for (const Strategy& strategy : all_strategies()) {
        for (const bool narrow : {false, true}) {
          RunnerConfig config;
          config.strategy = strategy;
          config.units = {{"first", 37, 0}, {"second", 21, 3}};
          config.alignment = 2;
          config.micro_batches = kMaxBatches;
          config.parameter_dtype = ho::DType::kBfloat16;
          config.gradient_dtype = narrow ? ho::DType::kFloat16 : ho::DType::kBfloat16;
          config.narrow_sums = narrow;
          config.rule = Sgd{1, 0, 0};
          config.loss_scale.scaling = Scaling::kNone;
          train_early(comm, config);
        }
      }
    });
  }
}

TEST_CASE("the plan of a number of micro-batches is proved once", "[steps]") {
  ho::test::require_job({"2x1"}, [](ho_comm* comm) {
    RunnerConfig config;
    config.strategy = parse_strategy("GGG").value();
    config.units = {{"first", 40, 0}, {"second", 9, 3}};
    config.micro_batches = 3;
    HostMemory memory;
    const auto runner =
        std::move(StepRunner::create(comm, nodes_of(comm).value(), config, memory)).value();
    const auto expect_proofs = [&](uint64_t wanted, const std::string& when) {
      if (runner->proofs().count() != wanted) {
        throw std::runtime_error(when + ": " + std::to_string(runner->proofs().count()) +
                                 " proofs");
      }
    };
    expect_proofs(1, "at creation");
    for (const uint32_t count : {3U, 2U, 3U, 2U}) {
      const ho::Status set = runner->set_micro_batches(count);
      if (!set.ok()) {
        throw std::runtime_error(set.message());
      }
    }
    expect_proofs(2, "with a second number");
    if (!runner->set_micro_batches(1).ok() || !runner->set_micro_batches(2).ok()) {
      throw std::runtime_error(runner->broken().message());
    }
    expect_proofs(3, "with a third");
  });
}
