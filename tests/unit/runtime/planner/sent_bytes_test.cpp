#include "planner/sent_bytes.hpp"

#include <spdlog/fmt/fmt.h>

#include "catch.hpp"
#include "requests.hpp"
#include "step/traffic.hpp"

namespace paro {
namespace {

constexpr uint32_t kGroups = 2;
constexpr uint32_t kRanks = 4;  // of a group
constexpr uint32_t kUnits = 3;
constexpr double kElements = 960;  // of each unit

PlannerRequest small_request() {
  PlannerRequest request = request_for(kUnits * kElements, kUnits * kElements, kUnits);
  request.world = {kGroups, kRanks};
  request.links.world = WorldAlgorithm::kHoRing;
  request.links.nics_per_group = kRanks;
  request.bytes = {2, 4, 12};
  request.micro_batches = 3;
  return request;
}

// What the runtime counts of its own step plan.
Traffic of_step_plan(const Strategy& strategy, const PlannerRequest& request) {
  StepShape shape{strategy, strategy.parameters, {}, request.micro_batches, 1};
  for (uint32_t unit = 0; unit < kUnits; ++unit) {
    shape.units.push_back({"unit", static_cast<uint64_t>(kElements), 0});
  }
  const auto groups = ho::GroupMap::parse(fmt::format("{}x{}", kGroups, kRanks)).value();
  const StepPlan plan = build_step_plan(shape).value();
  const auto layouts = lay_out(shape.units, groups, 1);
  const StepTraffic traffic(plan, *layouts, groups, groups, {2, 4});
  Traffic sum;
  for (ActionId id; id.at() < plan.actions.size(); ++id) {
    if (plan.actions[id.at()].act != Act::kAgree) {
      sum += traffic.of(id);
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("a rank sends its share of what the step plan's collectives move") {
  const PlannerRequest request = small_request();
  for (const Strategy& strategy : all_strategies()) {
    INFO(letters(strategy));
    const SentBytes sent = sent_bytes(strategy, request);
    const Traffic moved = of_step_plan(strategy, request);
    CHECK(sent.intra * request.world.ranks() == Approx(static_cast<double>(moved.intra_bytes)));
    CHECK(sent.inter * request.world.ranks() == Approx(static_cast<double>(moved.inter_bytes)));
  }
}

TEST_CASE("a rank sends as much over racks as over nodes alone") {
  PlannerRequest request = small_request();
  request.world = {4, 8};
  request.links.levels = {level("node", 8, 450e9, 1), level("cluster", 4, 50e9, 8)};
  PlannerRequest racks = request;
  racks.links.levels = {
      level("node", 8, 450e9, 1), level("rack", 2, 50e9, 8), level("cluster", 2, 50e9, 16)};
  for (const Strategy& strategy : all_strategies()) {
    INFO(letters(strategy));
    CHECK(sent_bytes(strategy, racks).inter == Approx(sent_bytes(strategy, request).inter));
    CHECK(sent_bytes(strategy, racks).intra == Approx(sent_bytes(strategy, request).intra));
  }
}

TEST_CASE("units say what their messages carry") {
  PlannerRequest request = small_request();
  const Strategy iig = parse_strategy("IIG").value();
  const SentBytes usual = sent_bytes(iig, request);
  const UnitSize unit{kElements, kElements, kElements};
  request.units = {unit, unit, unit};
  CHECK(sent_bytes(iig, request).intra == Approx(usual.intra));
  CHECK(sent_bytes(iig, request).inter == Approx(usual.inter));

  // The first stays gathered from forward to backward: one gather less in each of 3 micro-batches.
  request.units[0].messages.stays_gathered = true;
  const double gather = 3.0 / 4 * kElements * 2;
  CHECK(sent_bytes(iig, request).intra == Approx(usual.intra - 3 * gather));

  // Padding counts, inside groups and between them.
  request.units[0].messages = {};
  request.units[0].messages.gathered = kElements * 2 + 80;
  request.units[0].messages.reduced_between = kElements * 4 + 160;
  CHECK(sent_bytes(iig, request).intra == Approx(usual.intra + 3 * 2 * 3.0 / 4 * 80));
  CHECK(sent_bytes(iig, request).inter == Approx(usual.inter + 1.0 / 2 * 160 / 4));
}

TEST_CASE("one unit is a model too") {
  PlannerRequest request = small_request();
  request.model = {kElements, kElements};
  request.layers = 1;
  request.units = {{kElements, kElements, kElements}};
  CHECK(recommendation_for(request).figures.size() == kStrategyCount);
}

}  // namespace paro
