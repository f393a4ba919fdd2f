#include "step/critical_path.hpp"

#include <string>
#include <vector>

#include "catch.hpp"
#include "shapes.hpp"

using namespace paro;

namespace {

StepPlan plan_of(const char* triple,
                 uint32_t units,
                 uint32_t micro_batches,
                 uint64_t bucket_elements = 0) {
  StepShape shape{
      parse_strategy(triple).value(), Scope::kReplicated, {}, micro_batches, 1, bucket_elements};
  for (uint32_t u = 0; u < units; ++u) {
    shape.units.push_back({"unit", 8, 0});
  }
  return build_step_plan(shape).value();
}

// Seconds of a computation and of a collective; the norm takes nothing.
struct Costs {
  double compute;
  double inter;
  double intra;
  double beside = 0;  // of those between groups, what they take of the links inside
};

ActionCost cost_of(const Action& action, const Costs& costs) {
  if (action.act == Act::kAgree || action.act == Act::kUpdate) {
    return {};
  }
  if (!is_collective(action.act)) {
    return {costs.compute, ActionCost::Link::kNone};
  }
  return action.domain == Domain::kIntra
             ? ActionCost{costs.intra, ActionCost::Link::kIntra}
             : ActionCost{costs.inter, ActionCost::Link::kInter, costs.beside};
}

CriticalPath path_of(const StepPlan& plan, const Costs& costs, uint32_t further = 0) {
  std::vector<ActionCost> all;
  for (const Action& action : plan.actions) {
    all.push_back(cost_of(action, costs));
  }
  return critical_path(plan, all, further);
}

}  // namespace

TEST_CASE("what takes a part of other links slows what is there, as much as that part") {
  const StepPlan plan = plan_of("IGG", 4, 2);
  const double apart = path_of(plan, {0.1, 3, 2}).step_s;
  std::vector<ActionCost> one_link;
  for (const Action& action : plan.actions) {
    one_link.push_back(cost_of(action, {0.1, 3, 2}));
    one_link.back().link =
        is_collective(action.act) ? ActionCost::Link::kInter : ActionCost::Link::kNone;
  }
  double before = apart;
  for (const double beside : {0.25, 0.5, 0.75}) {
    const double step_s = path_of(plan, {0.1, 3, 2, beside}).step_s;
    CHECK(step_s > before);
    before = step_s;
  }
  CHECK(before < critical_path(plan, one_link).step_s);
  CHECK(path_of(plan, {0.1, 3, 2, 1}).step_s == Approx(critical_path(plan, one_link).step_s));
}

TEST_CASE("communication is exposed where it has nothing to hide behind") {
  // One unit: all-reduce after the backward pass, before the update.
  const auto path = path_of(plan_of("NNN", 1, 1), {1, 3, 0});
  CHECK(path.compute_s == Approx(2));
  CHECK(path.step_s == Approx(5));
  CHECK(path.exposed_s() == Approx(3));
}

TEST_CASE("reductions hide behind the backward pass but for the last") {
  const auto path = path_of(plan_of("NNN", 4, 1), {1, 1, 0});
  CHECK(path.compute_s == Approx(8));
  CHECK(path.exposed_s() == Approx(1));
}

TEST_CASE("a bucket is reduced when the last of its units is through") {
  // A collective takes 3 s whatever it moves: four of them, or two.
  const auto apart = path_of(plan_of("NNN", 4, 1), {1, 3, 0});
  CHECK(apart.exposed_s() == Approx(9));
  const auto together = path_of(plan_of("NNN", 4, 1, 16), {1, 3, 0});
  CHECK(together.compute_s == Approx(8));
  CHECK(together.exposed_s() == Approx(4));
}

TEST_CASE("sync-p hides behind the next forward pass but for the first unit") {
  // Reduce-scatters of 1 hide behind backward but for one; all-gathers behind forward but for one.
  const auto path = path_of(plan_of("NNG", 4, 1), {1, 1, 0});
  CHECK(path.exposed_s() == Approx(2));
}

TEST_CASE("communication that takes longer than computation is what a step takes") {
  // 4 units: 4 gathers forward, 4 backward, 4 reductions, each of 2 s on one link that they share.
  const auto path = path_of(plan_of("GGG", 4, 1), {0.1, 2, 0});
  CHECK(path.step_s >= Approx(24));
  CHECK(path.step_s <= 26);
}

TEST_CASE("links inside and between groups work at the same time") {
  const auto both = path_of(plan_of("IGG", 6, 4), {1, 1, 1});
  const auto one = path_of(plan_of("GGG", 6, 4), {1, 1, 1});
  CHECK(both.step_s < one.step_s);
}

TEST_CASE("nothing is exposed where there is no communication") {
  const auto path = path_of(plan_of("III", 3, 2), {1, 0, 0});
  CHECK(path.exposed_s() == Approx(0));
}

TEST_CASE("micro-batches in the middle of a step need not be run to take their time") {
  constexpr uint32_t kMicroBatches = 40;
  for (const Strategy& strategy : all_strategies()) {
    for (const Costs& costs : {Costs{1, 0.3, 0.2},
                               Costs{1, 3.7, 0.2},
                               Costs{1, 0.71, 1.3},
                               Costs{0.1, 2, 1},
                               Costs{1.1, 0.9, 5},
                               Costs{0, 1, 0.7}}) {
      const std::string triple = letters(strategy);
      INFO(triple << " " << costs.compute << " " << costs.inter << " " << costs.intra);
      const auto whole = path_of(plan_of(triple.c_str(), 5, kMicroBatches), costs);
      CHECK(whole.steady);
      uint32_t few = 4;
      const auto run = [&] {
        return path_of(plan_of(triple.c_str(), 5, few), costs, kMicroBatches - few);
      };
      auto shortened = run();
      while (!shortened.steady && few < kMicroBatches / 2) {
        few *= 2;
        shortened = run();
      }
      REQUIRE(shortened.steady);
      CHECK(shortened.step_s == Approx(whole.step_s).epsilon(1e-9));
      CHECK(shortened.compute_s == Approx(whole.compute_s).epsilon(1e-9));
    }
  }
}
