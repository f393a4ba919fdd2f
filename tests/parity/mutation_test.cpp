// Would parity notice? The classic mistakes of sharded training, made on purpose.
#include <string>
#include <vector>

#include "catch.hpp"
#include "parity_case.hpp"

using namespace paro;
using namespace paro::test;

namespace {

struct Planted {
  Mistake mistake;
  const char* groups;
  std::vector<const char*> strategies;  // in which it matters
};

toy::Training training_of(const char* triple, Mistake mistake) {
  const Strategy strategy = parse_strategy(triple).value();
  toy::Training training = mistake == Mistake::kForgetUnitOfBucket ? bucketed_training(strategy, 2)
                                                                   : hard_training(strategy, 2);
  training.steps = 12;  // the overflow is in step 7
  training.runner.timeout_ms = 5000;
  training.runner.mistake = mistake;
  return training;
}

void expect_caught(const Planted& planted) {
  std::vector<toy::Training> right;
  for (const char* triple : planted.strategies) {
    INFO(triple << " on " << planted.groups);
    toy::Training training = training_of(triple, planted.mistake);
    const auto wrong = complaints(planted.groups, {training}, kFloat32Tolerance);
    CHECK(wrong.front() != "");
    training.runner.mistake = Mistake::kNone;
    right.push_back(training);
  }
  // In one job, which a mistake may have ended.
  const auto complaint = complaints(planted.groups, right, kFloat32Tolerance);
  for (size_t i = 0; i < right.size(); ++i) {
    INFO(planted.strategies[i] << " on " << planted.groups);
    CHECK(complaint[i] == "");
  }
}

}  // namespace

TEST_CASE("averaging twice is caught") {
  expect_caught({Mistake::kAverageTwice, "2x2", {"NNN", "III", "IIG", "GGG"}});
}

TEST_CASE("a norm over the group only is caught") {
  // Without split optimizer state the lone contribution stays in group 0.
  expect_caught({Mistake::kNormOverGroup, "2x2", {"NNG", "NIG", "IIG", "GGG", "III"}});
}

TEST_CASE("a sync left out for groups of one is caught") {
  expect_caught(
      {Mistake::kSkipGroupsOfOne, "4x1", {"NNI", "NII", "NIG", "INI", "III", "IIG", "GIG"}});
}

TEST_CASE("an overflow flag that stays in the group is caught") {
  expect_caught({Mistake::kFlagInGroup, "2x2", {"NNG", "NIG", "ING", "IIG", "IGG", "GGG"}});
}

TEST_CASE("accumulation that overwrites is caught") {
  expect_caught(
      {Mistake::kOverwriteAccumulation, "2x2", {"NNN", "NII", "III", "IIG", "GNG", "GGG"}});
}

TEST_CASE("a unit that is not in its bucket's messages is caught") {
  expect_caught({Mistake::kForgetUnitOfBucket, "2x2", {"NNN", "NNG", "NIG", "III", "IIG", "GGG"}});
}
