#include "step/traffic.hpp"

#include "catch.hpp"
#include "shapes.hpp"

using namespace paro;
using paro::test::groups_of;

namespace {

// 960 parameters of 2 bytes, gradients of 4.
constexpr uint64_t kP = 1920;
constexpr uint64_t kG = 3840;

Traffic of(const char* triple, const char* groups, uint32_t micro_batches, const char* nodes) {
  const StepShape shape{
      parse_strategy(triple).value(), Scope::kReplicated, {{"unit", 960, 0}}, micro_batches, 1};
  const StepPlan plan = build_step_plan(shape).value();
  const auto layouts = lay_out(shape.units, groups_of(groups), 1);
  const StepTraffic traffic(plan, *layouts, groups_of(groups), groups_of(nodes), {2, 4});
  Traffic sum;
  for (ActionId id; id.at() < plan.actions.size(); ++id) {
    if (plan.actions[id.at()].act != Act::kAgree) {
      sum += traffic.of(id);
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("a step moves the bytes that its strategy says") {
  CHECK(of("NNN", "2x4", 3, "2x4") == Traffic{12 * kG, 2 * kG});
  CHECK(of("NNG", "2x4", 3, "2x4") == Traffic{6 * (kG + kP), kG + kP});
  CHECK(of("GGG", "2x4", 3, "2x4") == Traffic{18 * (2 * kP + kG), 3 * (2 * kP + kG)});
  // Inside the groups in every micro-batch, between them once.
  CHECK(of("III", "2x4", 3, "2x4") == Traffic{18 * (2 * kP + kG), 2 * kG});
  CHECK(of("IIG", "2x4", 3, "2x4") == Traffic{18 * (2 * kP + kG), kG + kP});
  CHECK(of("NII", "2x4", 3, "2x4") == Traffic{6 * (3 * kG + kP), 2 * kG});
}

TEST_CASE("between groups inside a node bytes stay in the node") {
  // Groups of two ranks inside nodes of four: what goes between groups stays in the node half the
  // way.
  CHECK(of("III", "4x2", 1, "2x4") == Traffic{4 * (2 * kP + kG) + 4 * kG, 2 * kG});
}

TEST_CASE("unequal groups move the bytes of their common segments") {
  // 3 + 1: the group of one owns all; three segments of 320 elements join it with one rank each.
  CHECK(of("III", "3+1", 1, "3+1") == Traffic{2 * (2 * kP + kG), 2 * kG});
}
