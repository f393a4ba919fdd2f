#include "cli/host/measured_levels.hpp"

#include <vector>

#include "catch.hpp"
#include "has.hpp"

namespace ho {
namespace {

const std::vector<MeasuredLink> kLinks{{false, 8e9, 2000},
                                       {false, 9e9, 4000},
                                       {false, 1e9, 6000},
                                       {true, 2e9, 30000},
                                       {true, 1.5e9, 20000}};

TEST_CASE("measured links become levels that the planner reads") {
  const auto file = measured_levels({4, 4}, 2, kLinks);
  INFO(file.status().message());
  REQUIRE(file.ok());
  const auto back = cost::parse_levels(cost::levels_text(*file), "c.json");
  REQUIRE(back.ok());
  REQUIRE(back->levels.size() == 2);
  CHECK(back->levels[0].size == 4);
  CHECK(back->levels[0].rate == 8e9);  // the median
  CHECK(back->levels[0].latency_s == Approx(2e-6));
  CHECK(back->levels[1].size == 2);
  CHECK(back->levels[1].rate == 1.5e9);  // the slowest
  CHECK(back->levels[1].nics == 2);
}

TEST_CASE("a job of one rank has one level without links") {
  const auto file = measured_levels({1}, 1, {});
  REQUIRE(file.ok());
  CHECK(cost::rank_count(cost::parse_levels(cost::levels_text(*file), "c.json")->levels) == 1);
}

TEST_CASE("unequal groups and links that carried nothing are no levels") {
  CHECK(has(measured_levels({1, 3}, 1, kLinks).status(), "this job's groups have 1+3 ranks"));
  CHECK(has(measured_levels({4, 4}, 1, {{false, 1e9, 1}}).status(),
            "a link between nodes carried nothing"));
  CHECK(has(measured_levels({4}, 1, {{false, 0, 1}}).status(), "a link inside a node carried"));
}

}  // namespace
}  // namespace ho
