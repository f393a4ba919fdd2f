// Groups of any size that tiles the levels: what each needs and takes, which one is chosen, and
// what crosses the outermost level.
#include "planner/group_sizes.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "catch.hpp"
#include "has.hpp"
#include "requests.hpp"

namespace paro {
namespace {

// 8 ranks a node, 32 nodes a pod, 64 pods at a quarter of their NICs' rate.
PlannerRequest pods() {
  PlannerRequest request = sixty_five_billion();
  request.links.levels = {
      level("node", 8, 450e9, 1), level("pod", 32, 50e9, 8), level("site", 64, 50e9, 256)};
  request.links.levels[2].oversubscription = 4;
  request.links.levels[1].latency_s = request.links.levels[2].latency_s = 14e-6;
  request.links.world = WorldAlgorithm::kHoRing;
  request.layers = 8;  // fewer, and the test is quicker
  request.world = {2048, 8};
  request.micro_batches = 2;
  request.compute_s = 4;
  return request;
}

SizedPlans plans_for(const PlannerRequest& request, const GroupSizeList& list) {
  auto plans = recommend_sizes(request, list);
  INFO(plans.status().message());
  REQUIRE(plans.ok());
  return *plans;
}

std::vector<uint32_t> sizes_of(const SizedPlans& plans) {
  std::vector<uint32_t> sizes;
  for (const SizedPlan& plan : plans.plans) {
    sizes.push_back(plan.request.world.group_size);
  }
  return sizes;
}

TEST_CASE("without a list the groups are the request's own") {
  const SizedPlans plans = plans_for(seven_billion(), {});
  REQUIRE(sizes_of(plans) == std::vector<uint32_t>{8});
  CHECK(plans.plans[0].recommendation.why() == recommendation_for(seven_billion()).why());
}

TEST_CASE(
    "every size that tiles 16,384 ranks is worked out, and what is split over a group shrinks") {
  const SizedPlans plans = plans_for(pods(), {true, {}});
  REQUIRE(sizes_of(plans) ==
          std::vector<uint32_t>{2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192});
  double before = std::numeric_limits<double>::infinity();
  for (const SizedPlan& plan : plans.plans) {
    const WorldShape& world = plan.request.world;
    INFO(world.group_size);
    CHECK(world.ranks() == 16384);
    const StrategyFigures& iii = row_of(plan.recommendation, "III");
    CHECK(iii.memory.states.optimizer == Approx(12.0 * 65e9 / world.group_size));
    CHECK(iii.memory.total() < before);
    before = iii.memory.total();
    // Scope I has no part in it.
    CHECK(row_of(plan.recommendation, "GGG").time.step_s ==
          row_of(plans.plans[0].recommendation, "GGG").time.step_s);
  }
  // A circle over all nodes waits for 2047 messages, one over groups of nodes for fewer.
  const SizedPlan& chosen = plans.plans[plans.chosen];
  CHECK(chosen.request.world.group_size > 8);
  CHECK(chosen.recommendation.recommended()->time.step_s <
        plans.plans[2].recommendation.recommended()->time.step_s);
}

TEST_CASE("two rates are levels where groups are no nodes, and a node's figures stay") {
  PlannerRequest request = seven_billion();
  request.links.inter_call_s = 1e-3;
  const SizedPlans plans = plans_for(request, {false, {16, 8, 4, 8}});
  REQUIRE(sizes_of(plans) == std::vector<uint32_t>{4, 8, 16});
  const Recommendation nodes = recommendation_for(request);
  for (size_t row = 0; row < nodes.figures.size(); ++row) {
    CHECK(plans.plans[1].recommendation.figures[row].time.step_s == nodes.figures[row].time.step_s);
  }
  // Half a node's ranks are as near as all of them; two nodes' take their NICs.
  const auto parameters_s = [&](size_t plan) {
    return row_of(plans.plans[plan].recommendation, "III").time.terms.parameters;
  };
  CHECK(parameters_s(0) < parameters_s(1));
  CHECK(parameters_s(2) > 10 * parameters_s(1));
}

TEST_CASE("of sizes that are equally good the request's own is chosen") {
  PlannerRequest request = seven_billion();
  request.memory_bytes = 6e9;  // GGG alone fits, which has no group
  request.micro_batches = 1;
  const SizedPlans plans = plans_for(request, {false, {4, 8}});
  for (const SizedPlan& plan : plans.plans) {
    REQUIRE(plan.recommendation.recommended() != nullptr);
    CHECK(letters(plan.recommendation.recommended()->strategy) == "GGG");
  }
  CHECK(plans.plans[plans.chosen].request.world.group_size == 8);
}

TEST_CASE("one order goes over all sizes, and each size's ranking is a part of it") {
  PlannerRequest request = pods();
  const SizedPlans plans = plans_for(request, {true, {}});
  double fastest_s = std::numeric_limits<double>::infinity();
  std::vector<StrategyFigures> all;
  std::vector<size_t> fitting;
  for (const SizedPlan& plan : plans.plans) {
    for (const StrategyFigures& row : plan.recommendation.figures) {
      if (row.fits()) {
        fastest_s = std::min(fastest_s, row.time.step_s);
        fitting.push_back(all.size());
      }
      all.push_back(row);
    }
  }
  // As fast as the fastest of all sizes, not only as that of its own.
  const Recommendation& chosen = plans.plans[plans.chosen].recommendation;
  CHECK(as_fast(fastest_s, chosen.recommended()->time.step_s));
  std::vector<size_t> of_chosen;
  for (const size_t row : in_order(fitting, all)) {
    if (row / kStrategyCount == plans.chosen) {
      of_chosen.push_back(row % kStrategyCount);
    }
  }
  CHECK(chosen.ranking == of_chosen);
}

TEST_CASE("the fastest and the smallest are of all sizes, and a sentence says why one is taken") {
  const SizedPlans plans = plans_for(pods(), {true, {}});
  REQUIRE((plans.fastest && plans.smallest));
  const double fastest_s = plans.fastest->figures.time.step_s;
  double least_bytes = std::numeric_limits<double>::infinity();
  for (const SizedPlan& plan : plans.plans) {
    for (const StrategyFigures& row : plan.recommendation.figures) {
      if (row.fits()) {
        CHECK(fastest_s <= row.time.step_s);
        least_bytes = as_fast(fastest_s, row.time.step_s)
                          ? std::min(least_bytes, row.memory.total())
                          : least_bytes;
      }
    }
  }
  CHECK(plans.smallest->figures.memory.total() == least_bytes);
  const SizedPlan& chosen = plans.plans[plans.chosen];
  const std::vector<std::string>& reasons = chosen.recommendation.reasons;
  REQUIRE(reasons.size() == 2);
  INFO(reasons[1]);
  CHECK(has(reasons[1],
            "; groups of " + std::to_string(chosen.request.world.group_size) + " are taken: "));
  CHECK_FALSE(has(recommendation_for(seven_billion()).why(), " are taken: "));
}

TEST_CASE("of several sizes each says of its fastest that it is one of that size") {
  const SizedPlans plans = plans_for(pods(), {true, {}});
  size_t telling = 0;
  for (const SizedPlan& plan : plans.plans) {
    const Recommendation& all = plan.recommendation;
    if (all.recommended() == nullptr) {
      continue;
    }
    INFO(all.why());
    const bool tells = has(all.why(), " is the fastest");
    telling += tells ? 1 : 0;
    CHECK(tells == has(all.why(),
                       " is the fastest in groups of " +
                           std::to_string(plan.request.world.group_size) + " ("));
  }
  CHECK(telling > 0);
}

TEST_CASE("sizes that do not tile are told") {
  CHECK(has(
      recommend_sizes(pods(), {false, {12}}).status(),
      "--group-sizes 12: groups of 12 ranks: level 0 (node): size 8 is neither a multiple nor a "
      "divisor of 12; takes 8 or 16"));
  CHECK(has(recommend_sizes(seven_billion(), {false, {64}}).status(),
            "--group-sizes 64: groups of 64 ranks: there are 32"));
  PlannerRequest request = pods();
  request.world = {2, 8};
  CHECK(
      has(recommend_sizes(request, {}).status(), "levels of 8 x 32 x 64 hold 16384 ranks, not 16"));
}

TEST_CASE("what crosses the outermost level, by hand") {
  PlannerRequest request = pods();
  request.micro_batches = 1;
  request.bytes.gradient_sum = 0;
  const double v = 2 * 65e9;  // of parameters, and of gradients
  const auto crossing = [&](const char* name, uint32_t group_size) {
    const auto sized = with_group_size(request, group_size);
    REQUIRE(sized.ok());
    return spine_bytes(row_of(recommendation_for(*sized), name), *sized);
  };
  // HO-Ring's circles over the 2048 nodes pass a pod's boundary with all but one node's part,
  // twice.
  CHECK(crossing("NNN", 8) == Approx(2 * 2047.0 / 2048 * v));
  // Pods as groups: parameters and gradients stay inside, their sums cross.
  CHECK(crossing("III", 256) == Approx(2 * 63.0 / 64 * v));
  // A node is a group: 256 ranks of a pod, of which 32 have the same part, all-reduce theirs.
  CHECK(crossing("III", 8) >= crossing("III", 256));
  // Parameters gathered twice and gradients reduced, over all pods.
  CHECK(crossing("GGG", 8) >= 3 * 63.0 / 64 * v);
  CHECK(crossing("IGG", 8) < crossing("GGG", 8));
}

TEST_CASE("what crosses the outermost level counts a node's sets of routed experts") {
  PlannerRequest request = seven_billion();
  const auto crossing = [&](double factor, uint32_t group_size) {
    request.links.between_factor = factor;
    const auto sized = with_group_size(request, group_size);
    REQUIRE(sized.ok());
    return spine_bytes(row_of(recommendation_for(*sized), "GGG"), *sized);
  };
  for (const uint32_t group_size : {4U, 8U, 16U}) {
    CHECK(crossing(3, group_size) == Approx(3 * crossing(1, group_size)));
  }
}

}  // namespace
}  // namespace paro
