#include "run/plan_proofs.hpp"

#include "catch.hpp"

using namespace paro;

namespace {

const std::vector<UnitShape> kUnits{{"embedding", 64, 0}, {"head", 48, 0}};

StepPlan plan_of(uint32_t micro_batches) {
  return build_step_plan(
             {parse_strategy("IIG").value(), Scope::kReplicated, kUnits, micro_batches, 1})
      .value();
}

}  // namespace

TEST_CASE("each number of micro-batches is proved once") {
  const ho::GroupMap groups = ho::GroupMap::from_sizes({2, 2}).value();
  const std::vector<UnitLayout> layouts = lay_out(kUnits, groups, 16).value();
  PlanProofs proofs;
  for (uint32_t round = 0; round < 2; ++round) {
    for (const uint32_t micro_batches : {1U, 2U, 3U}) {
      CHECK(proofs.prove(plan_of(micro_batches), layouts, groups, true).ok());
    }
    CHECK(proofs.count() == 3);
  }
}

TEST_CASE("a plan that is wrong is refused each time") {
  const ho::GroupMap groups = ho::GroupMap::from_sizes({2, 2}).value();
  const std::vector<UnitLayout> layouts = lay_out(kUnits, groups, 16).value();
  StepPlan plan = plan_of(2);
  for (Action& action : plan.actions) {
    action.after.clear();
  }
  PlanProofs proofs;
  for (uint32_t time = 1; time <= 2; ++time) {
    CHECK_FALSE(proofs.prove(plan, layouts, groups, true).ok());
    CHECK(proofs.count() == time);
  }
  CHECK(proofs.prove(plan_of(2), layouts, groups, true).ok());
}
