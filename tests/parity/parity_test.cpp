// All strategies on many shapes train like one rank: losses, norms, decisions and masters over 50
// steps, with the bytes that the step plan says and the memory that was predicted.
#include <string>
#include <vector>

#include "catch.hpp"
#include "parity_case.hpp"

using namespace paro;
using namespace paro::test;

namespace {

void check_all(const char* groups,
               const std::vector<toy::Training>& trainings,
               const Tolerance& tolerance) {
  const auto wrong = complaints(groups, trainings, tolerance);
  for (size_t i = 0; i < trainings.size(); ++i) {
    INFO(name_of(trainings[i]) << " on " << groups);
    CHECK(wrong[i].empty());
    if (!wrong[i].empty()) {
      UNSCOPED_INFO(wrong[i]);
      CHECK(wrong[i] == "");
    }
  }
}

void check_shape(const char* groups) {
  std::vector<toy::Training> trainings;
  for (const Strategy& strategy : all_strategies()) {
    trainings.push_back(hard_training(strategy, 1));
    trainings.push_back(hard_training(strategy, 4));
  }
  check_all(groups, trainings, kFloat32Tolerance);
}

std::vector<toy::Training> in_16_bits(ho::DType dtype) {
  std::vector<toy::Training> trainings;
  for (const Strategy& strategy : all_strategies()) {
    toy::Training training = hard_training(strategy, 2);
    training.runner.parameter_dtype = dtype;
    training.runner.gradient_dtype = dtype;
    if (dtype == ho::DType::kFloat16) {
      training.runner.loss_scale = {Scaling::kDynamic, 1024, 2, 0.5, 10, 1, 65536};
    }
    trainings.push_back(training);
  }
  return trainings;
}

}  // namespace

TEST_CASE("parity on 1x4", "[1x4]") {
  check_shape("1x4");
}
TEST_CASE("parity on 4x1", "[4x1]") {
  check_shape("4x1");
}
TEST_CASE("parity on 2x2", "[2x2]") {
  check_shape("2x2");
}
TEST_CASE("parity on 2x4", "[2x4]") {
  check_shape("2x4");
}
TEST_CASE("parity on 4x2", "[4x2]") {
  check_shape("4x2");
}
TEST_CASE("parity on 3+1", "[3+1]") {
  check_shape("3+1");
}
TEST_CASE("parity on 1+1+2", "[1+1+2]") {
  check_shape("1+1+2");
}
TEST_CASE("one rank is a world too", "[1]") {
  check_shape("1x1");
}

TEST_CASE("bfloat16 parameters and gradients, fp32 masters", "[bfloat16]") {
  check_all("2x2", in_16_bits(ho::DType::kBfloat16), kBfloat16Tolerance);
}

TEST_CASE("float16 with a dynamic loss scale", "[float16]") {
  check_all("3+1", in_16_bits(ho::DType::kFloat16), kFloat16Tolerance);
}
