// Which units share a collective, and what that changes in a plan.
#include "step/buckets.hpp"

#include <algorithm>

#include "catch.hpp"
#include "shapes.hpp"
#include "step/step_plan.hpp"
#include "step/traffic.hpp"

using namespace paro;
using paro::test::groups_of;
using paro::test::step_shape;

namespace {

using Buckets = std::vector<Bucket>;

std::vector<UnitShape> units(const std::vector<uint64_t>& trained) {
  std::vector<UnitShape> shapes;
  shapes.reserve(trained.size());
  for (const uint64_t count : trained) {
    shapes.push_back({"unit", count, 0});
  }
  return shapes;
}

StepShape bucketed(const Strategy& strategy, uint64_t elements) {
  StepShape shape = step_shape(strategy, 2);
  shape.bucket_elements = elements;
  return shape;
}

bool reduces(const Action& action) {
  return is_collective(action.act) && action.content == Content::kGradients;
}

}  // namespace

TEST_CASE("neighbours share a bucket as long as they fit, from the last unit on") {
  CHECK(buckets_of(units({1, 2, 3, 4}), 100) == Buckets{{3, 2, 1, 0}});
  CHECK(buckets_of(units({1, 2, 3, 4}), 7) == Buckets{{3, 2}, {1, 0}});
  CHECK(buckets_of(units({1, 2, 3, 4}), 6) == Buckets{{3}, {2, 1, 0}});
  CHECK(buckets_of(units({}), 6).empty());
}

TEST_CASE("a unit that shares another's parameters is alone, and so are its neighbours") {
  std::vector<UnitShape> shapes = units({1, 2, 0, 3, 0});
  shapes[2].shares = 0;
  CHECK(buckets_of(shapes, 100) == Buckets{{3}, {2}, {1, 0}});
  shapes[4].shares = 1;
  CHECK(buckets_of(shapes, 100) == Buckets{{4}, {3}, {2}, {1, 0}});
}

TEST_CASE("a unit as large as a bucket is alone") {
  CHECK(buckets_of(units({1, 6, 1, 1}), 6) == Buckets{{3, 2}, {1}, {0}});
  CHECK(buckets_of(units({1, 9, 1, 1}), 6) == Buckets{{3, 2}, {1}, {0}});
  CHECK(buckets_of(units({1, 2}), 0) == Buckets{{1}, {0}});
  CHECK(buckets_of(units({1, 2}), 1) == Buckets{{1}, {0}});
}

TEST_CASE("units without gradients are in no bucket and part none") {
  CHECK(buckets_of(units({1, 0, 2, 0}), 6) == Buckets{{2, 0}});
  CHECK(buckets_of(units({0, 0}), 6).empty());
}

TEST_CASE("each unit of a bucket has a place of its own, where buffers would begin too") {
  const auto shapes = units({5, 33, 40, 1000});
  const auto layouts = lay_out(shapes, groups_of("2x2"), 4).value();
  const BucketOffsets indices = offsets_of(buckets_of(shapes, 100), layouts);
  CHECK(indices.offsets == std::vector<uint64_t>{128, 64, 0, 0});
  CHECK(indices.most_elements == 128 + 8);
  CHECK(offsets_of(buckets_of(shapes, 0), layouts).most_elements == 0);
}

TEST_CASE("a plan has one reduction where it had one for each unit of a bucket") {
  for (const Strategy& strategy : all_strategies()) {
    INFO(letters(strategy));
    const auto count = [&](uint64_t elements) {
      const StepPlan plan = build_step_plan(bucketed(strategy, elements)).value();
      return std::count_if(plan.actions.begin(), plan.actions.end(), reduces);
    };
    // Four units have gradients: 48, 97, 1 and 64, from the last on.
    CHECK(count(145) * 2 == count(0));
    CHECK(count(1000) * 4 == count(0));
    CHECK(count(64) == count(0));
  }
}

TEST_CASE("what is reduced together moves the same bytes") {
  for (const Strategy& strategy : all_strategies()) {
    for (const char* groups : paro::test::kGroups) {
      INFO(letters(strategy) << " on " << groups);
      const auto traffic = [&](uint64_t elements) {
        const StepPlan plan = build_step_plan(bucketed(strategy, elements)).value();
        const auto layouts = lay_out(plan.shape.units, groups_of(groups), 4).value();
        return StepTraffic(plan, layouts, groups_of(groups), groups_of(groups), {2, 4});
      };
      const StepTraffic apart = traffic(0);
      const StepTraffic together = traffic(150);
      for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kSyncG, Phase::kSyncP}) {
        CHECK(together.of(phase) == apart.of(phase));
      }
    }
  }
}

TEST_CASE("a reduction tells all of its units") {
  const StepPlan plan = build_step_plan(bucketed(parse_strategy("NNN").value(), 1000)).value();
  const auto reduction = std::find_if(plan.actions.begin(), plan.actions.end(), reduces);
  REQUIRE(reduction != plan.actions.end());
  CHECK(units_of(*reduction) == std::vector<uint32_t>{5, 2, 1, 0});
  CHECK(to_string(plan, *reduction) ==
        "all_reduce gradients N->N world, units 5,2,1,0 (head to embedding), sync-g");
}
