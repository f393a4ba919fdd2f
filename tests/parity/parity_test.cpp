// All strategies on many shapes train like one rank: losses, norms, decisions and masters over 12
// to 16 steps (50 in [more]), with the bytes that the step plan says and the memory that was
// predicted.
#include <string>
#include <vector>

#include "catch.hpp"
#include "job.hpp"
#include "parity_case.hpp"

using namespace paro;
using namespace paro::test;

namespace {

void check_all(const char* nodes,
               const std::vector<toy::Training>& trainings,
               const Tolerance& tolerance,
               const ho::GroupMap* groups = nullptr) {
  const auto wrong = complaints(nodes, trainings, tolerance, groups);
  for (size_t i = 0; i < trainings.size(); ++i) {
    INFO(to_string(trainings[i]) << " on " << nodes
                                 << (groups != nullptr ? ", groups " + groups->to_string() : ""));
    CHECK(wrong[i] == "");
  }
}

// The overflow is in step 7: half of the steps come after it.
constexpr uint32_t kHardSteps = 16;
constexpr uint32_t kHardStepsOfFour = 12;  // each takes as long as four of the others

std::vector<toy::Training> hard_trainings() {
  std::vector<toy::Training> trainings;
  for (const Strategy& strategy : all_strategies()) {
    trainings.push_back(hard_training(strategy, 1));
    trainings.back().steps = kHardSteps;
    trainings.push_back(hard_training(strategy, 4));
    trainings.back().steps = kHardStepsOfFour;
    trainings.push_back(bucketed_training(strategy, 1));
    trainings.push_back(bucketed_training(strategy, 4));
    trainings.push_back(tied_training(strategy, 1));
    trainings.push_back(tied_training(strategy, 3));
  }
  return trainings;
}

void check_shape(const char* nodes) {
  check_all(nodes, hard_trainings(), kFloat32Tolerance);
}

// From 24 steps on the loss scale shrinks, in step 7, and grows again 10 steps later.
std::vector<toy::Training> in_16_bits(ho::DType dtype, uint32_t steps) {
  std::vector<toy::Training> trainings;
  for (const Strategy& strategy : all_strategies()) {
    toy::Training training = hard_training(strategy, 2);
    training.steps = steps;
    training.runner.parameter_dtype = dtype;
    training.runner.gradient_dtype = dtype;
    // Every other: head, gain and block; the embedding.
    training.runner.bucket_bytes = trainings.size() % 2 == 0 ? 1000 : 0;
    if (dtype == ho::DType::kFloat16) {
      training.runner.loss_scale = {Scaling::kDynamic, 1024, 2, 0.5, 10, 1, 65536};
    }
    trainings.push_back(training);
  }
  return trainings;
}

}  // namespace

TEST_CASE("every strategy trains like one rank on 1x4", "[1x4]") {
  check_shape("1x4");
}
TEST_CASE("every strategy trains like one rank on 4x1", "[4x1]") {
  check_shape("4x1");
}
TEST_CASE("every strategy trains like one rank on 2x2", "[2x2]") {
  check_shape("2x2");
}
TEST_CASE("every strategy trains like one rank on 2x4", "[2x4]") {
  check_shape("2x4");
}
TEST_CASE("every strategy trains like one rank on 4x2", "[4x2]") {
  check_shape("4x2");
}
TEST_CASE("every strategy trains like one rank on 3+1", "[3+1]") {
  check_shape("3+1");
}
TEST_CASE("every strategy trains like one rank on 1+1+2", "[1+1+2]") {
  check_shape("1+1+2");
}
TEST_CASE("one rank is a world too", "[1]") {
  check_shape("1x1");
}

TEST_CASE("bfloat16 parameters and gradients with fp32 masters train like one rank", "[bfloat16]") {
  check_all("2x2", in_16_bits(ho::DType::kBfloat16, 24), kBfloat16Tolerance);
}

TEST_CASE("bfloat16 gradients that are sent in fp32 train like one rank", "[bfloat16]") {
  std::vector<toy::Training> trainings = in_16_bits(ho::DType::kBfloat16, 8);
  for (toy::Training& training : trainings) {
    training.runner.fp32_gradients = true;
    training.runner.micro_batches = training.runner.bucket_bytes == 0 ? 1 : 3;
  }
  check_all("2x2", trainings, kBfloat16Tolerance);
  check_all("3+1", {trainings.begin(), trainings.begin() + 5}, kBfloat16Tolerance);
}

TEST_CASE("float16 with a dynamic loss scale trains like one rank", "[float16]") {
  check_all("3+1", in_16_bits(ho::DType::kFloat16, 24), kFloat16Tolerance);
}

TEST_CASE("16-bit states, frozen parameters and 50 steps train like one rank on every shape",
          "[more]") {
  std::vector<toy::Training> frozen;
  std::vector<toy::Training> long_ones;
  for (const Strategy& strategy : all_strategies()) {
    long_ones.push_back(hard_training(strategy, 1));  // 50 steps
    long_ones.push_back(hard_training(strategy, 4));
    for (const Scope scope : {Scope::kReplicated, Scope::kGroup, Scope::kWorld}) {
      frozen.push_back(hard_training(strategy, 4));
      frozen.back().model.freeze_up = true;
      frozen.back().model.freeze_embedding = true;
      frozen.back().runner.frozen = scope;
      frozen.push_back(frozen.back());
      frozen.back().model.tie_head = true;
    }
  }
  for (const char* nodes : {"1x4", "4x1", "2x2", "4x2", "3+1", "1+1+2"}) {
    check_all(nodes, in_16_bits(ho::DType::kBfloat16, 50), kBfloat16Tolerance);
    check_all(nodes, in_16_bits(ho::DType::kFloat16, 50), kFloat16Tolerance);
    check_all(nodes, frozen, kFloat32Tolerance);
    check_all(nodes, long_ones, kFloat32Tolerance);
  }
}

TEST_CASE("groups that are not nodes train like one rank", "[groups]") {
  const auto rank = [](uint32_t number) { return ho::GlobalRank(number); };
  // Halves of nodes; ranks of both nodes in each group; unequal groups in an order of their own.
  const std::vector<ho::GroupMap> maps{
      ho::GroupMap::parse("4x1").value(),
      ho::GroupMap::from_members({{rank(0), rank(2)}, {rank(3), rank(1)}}).value(),
      ho::GroupMap::from_members({{rank(3), rank(0), rank(2)}, {rank(1)}}).value()};
  std::vector<toy::Training> trainings;
  for (const Strategy& strategy : all_strategies()) {
    trainings.push_back(hard_training(strategy, 2));
    trainings.push_back(bucketed_training(strategy, 2));
  }
  for (const ho::GroupMap& groups : maps) {
    check_all("2x2", trainings, kFloat32Tolerance, &groups);
  }
}

TEST_CASE("copies that differ are found on every rank, and named", "[drift]") {
  for (const char* triple : {"NNN", "III"}) {
    ho::test::JobOptions options;
    options.groups = "2x2";
    std::vector<std::string> found(4);
    ho::test::require_job(options, [&](ho_comm* comm) {
      const auto rank = static_cast<size_t>(ho_comm_rank(comm));
      RunnerConfig config;
      config.strategy = parse_strategy(triple).value();
      config.units = {{"same", 40, 0}, {"odd", 40, 0}};
      HostMemory memory;
      const auto runner =
          std::move(StepRunner::create(comm, nodes_of(comm).value(), config, memory)).value();
      std::vector<float> values(40, 1.0F);
      static_cast<void>(runner->between_steps().load(0, values, {}));
      values[39] = rank == 3 ? 2.0F : 1.0F;
      static_cast<void>(runner->between_steps().load(1, values, {}));
      const ho::Status status = runner->between_steps().check_drift();
      found[rank] = status.code() == ho::StatusCode::kMismatch ? status.message() : "not found";
      if (runner->broken().ok()) {
        found[rank] = "the runner goes on";
      }
    });
    INFO(triple);
    CHECK(found[3].find("rank 3 differs from rank") != std::string::npos);
    // The padding up to 48 is nobody's; ranks 1 and 3 hold the second part.
    CHECK(found[3].find(triple == std::string("NNN")
                            ? "unit 1 (odd), parameters, elements 0 to 39;"
                            : "unit 1 (odd), parameters, elements 16 to 39;") != std::string::npos);
    for (const std::string& text : found) {
      INFO(text);
      CHECK(text.find("copies of the same state differ") != std::string::npos);
    }
  }
}
