// Would parity notice? The classic mistakes of sharded training, made on purpose.
#include <string>
#include <vector>

#include "catch.hpp"
#include "faults.hpp"
#include "parity_case.hpp"

using namespace paro;
using namespace paro::test;

namespace {

struct Planted {
  Fault fault;
  const char* groups;
  std::vector<const char*> strategies;  // in which it matters
};

toy::Training training_of(const char* triple, Fault fault) {
  const Strategy strategy = parse_strategy(triple).value();
  toy::Training training = fault == Fault::kForgetUnitOfBucket ? bucketed_training(strategy, 2)
                                                               : hard_training(strategy, 2);
  training.steps = 12;  // the overflow is in step 7
  training.runner.timeout_ms = 60000;
  return training;
}

// By what the training comes to, and not by an error that ends it before.
bool is_caught(const std::string& complaint) {
  return complaint.find(", alone ") != std::string::npos ||
         complaint.find("copies of the same state differ") != std::string::npos;
}

void expect_caught(const Planted& planted) {
  std::vector<toy::Training> trainings;
  inject(planted.fault);
  for (const char* triple : planted.strategies) {
    INFO(triple << " on " << planted.groups);
    trainings.push_back(training_of(triple, planted.fault));
    const auto wrong = complaints(planted.groups, {trainings.back()}, kFloat32Tolerance);
    CAPTURE(wrong.front());
    CHECK(is_caught(wrong.front()));
  }
  CHECK(wrong_plans_accepted() == 0);
  const bool plans =
      planted.fault == Fault::kSkipGroupsOfOne || planted.fault == Fault::kForgetUnitOfBucket;
  CHECK((wrong_plans_refused() > 0) == plans);
  inject(Fault::kNone);
  // In one job, which a fault may have ended.
  const auto complaint = complaints(planted.groups, trainings, kFloat32Tolerance);
  for (size_t i = 0; i < trainings.size(); ++i) {
    INFO(planted.strategies[i] << " on " << planted.groups);
    CHECK(complaint[i] == "");
  }
}

}  // namespace

TEST_CASE("a sum that is averaged twice is caught") {
  expect_caught({Fault::kAverageTwice, "2x2", {"NNN", "III", "IIG", "GGG"}});
}

TEST_CASE("a norm over the group only is caught") {
  // Without split optimizer state the lone contribution stays in group 0.
  expect_caught({Fault::kNormOverGroup, "2x2", {"NNG", "NIG", "IIG", "GGG", "III"}});
}

TEST_CASE("a sync left out for groups of one is caught") {
  expect_caught(
      {Fault::kSkipGroupsOfOne, "4x1", {"NNI", "NII", "NIG", "INI", "III", "IIG", "GIG"}});
}

TEST_CASE("an overflow flag that stays in the group is caught") {
  expect_caught({Fault::kFlagInGroup, "2x2", {"NNG", "NIG", "ING", "IIG", "IGG", "GGG"}});
}

TEST_CASE("accumulation that overwrites is caught") {
  expect_caught({Fault::kOverwriteAccumulation, "2x2", {"NNN", "NII", "III", "IIG", "GNG", "GGG"}});
}

TEST_CASE("a unit that is not in its bucket's messages is caught") {
  expect_caught({Fault::kForgetUnitOfBucket, "2x2", {"NNN", "NNG", "NIG", "III", "IIG", "GGG"}});
}
