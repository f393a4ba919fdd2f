// Every builder on every shape, verified.
#include <algorithm>
#include <set>

#include "catch.hpp"
#include "plan/plan.hpp"
#include "plan/verify.hpp"
#include "shapes.hpp"

using namespace ho;

namespace {

// One, several and all.
std::set<uint32_t> ring_counts(const GroupMap& map, Algorithm algorithm) {
  if (algorithm != Algorithm::kMultiRing) {
    return {1};
  }
  return {1, std::min(2U, map.rail_count()), map.rail_count()};
}

// Groups that differ: the first, its neighbour, the last, and one of each size.
std::set<uint32_t> groups_that_differ(const GroupMap& map) {
  std::set<uint32_t> groups = {0, map.group_count() - 1};
  std::set<uint32_t> sizes;
  for (uint32_t g = 0; g < map.group_count(); ++g) {
    if (g == 1 || sizes.insert(map.group_size(GroupIndex(g))).second) {
      groups.insert(g);
    }
  }
  return groups;
}

// In small worlds every rank. In larger ones, of each of these groups the first and the last rank
// with a rail and the first and the last extra one: the others take the same ways.
std::set<uint32_t> roots(const GroupMap& map, Collective collective) {
  constexpr uint32_t kSmallWorld = 8;
  std::set<uint32_t> ranks = {0};
  if (!has_root(collective)) {
    return ranks;
  }
  for (uint32_t r = 0; map.world_size() <= kSmallWorld && r < map.world_size(); ++r) {
    ranks.insert(r);
  }
  for (const uint32_t g : groups_that_differ(map)) {
    const uint32_t last = map.group_size(GroupIndex(g)) - 1;
    const uint32_t rails = map.rail_count();
    for (const uint32_t r : {0U, std::min(rails - 1, last), std::min(rails, last), last}) {
      ranks.insert(map.rank_at(GroupIndex(g), GroupRank(r)).value());
    }
  }
  return ranks;
}

void verify_all(const test::Shape& shape, Collective collective, Algorithm algorithm) {
  for (const uint32_t rings : ring_counts(shape.map, algorithm)) {
    for (const uint32_t root : roots(shape.map, collective)) {
      const auto whole =
          build_whole_plan(shape.map, {collective, algorithm, rings, GlobalRank(root)});
      REQUIRE(whole.ok());
      const Status status = verify(*whole, shape.map);
      INFO(shape.name << " " << to_string(collective) << " " << to_string(algorithm) << " rings "
                      << rings << " root " << root << ": " << status.to_string());
      REQUIRE(status.ok());
    }
  }
}

}  // namespace

TEST_CASE("every built plan is proved correct") {
  for (const auto& shape : test::all_shapes()) {
    for (uint8_t collective = 0; collective < kCollectiveCount; ++collective) {
      for (uint8_t algorithm = 0; algorithm < kAlgorithmCount; ++algorithm) {
        verify_all(shape, static_cast<Collective>(collective), static_cast<Algorithm>(algorithm));
      }
    }
  }
}

TEST_CASE("plans on fewer rails than ranks are proved correct") {
  for (const auto& shape : test::all_shapes()) {
    if (shape.map.world_size() > 16) {
      continue;
    }
    if (shape.map.rail_count() == 1) {
      continue;
    }
    for (const uint32_t rails : std::set<uint32_t>{1, shape.map.rail_count() - 1}) {
      const test::Shape fewer = {shape.name + " on " + std::to_string(rails) + " rails",
                                 shape.map.with_rails(rails)};
      for (uint8_t collective = 0; collective < kCollectiveCount; ++collective) {
        for (uint8_t algorithm = 0; algorithm < kAlgorithmCount; ++algorithm) {
          verify_all(fewer, static_cast<Collective>(collective), static_cast<Algorithm>(algorithm));
        }
      }
    }
  }
}

TEST_CASE("a world of 64 ranks is verified as well") {
  for (const char* text : {"8x8", "4x16", "16x4"}) {
    const test::Shape shape = {text, GroupMap::parse(text).value()};
    for (uint8_t c = 0; c < kCollectiveCount; ++c) {
      const auto collective = static_cast<Collective>(c);
      for (uint8_t algorithm = 0; algorithm < kAlgorithmCount; ++algorithm) {
        const PlanRequest request = {collective, static_cast<Algorithm>(algorithm), 4, {}};
        const auto whole = build_whole_plan(shape.map, request);
        REQUIRE(whole.ok());
        const Status status = verify(*whole, shape.map);
        INFO(text << " " << status.to_string());
        CHECK(status.ok());
      }
    }
  }
}
