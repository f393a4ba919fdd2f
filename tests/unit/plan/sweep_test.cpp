// Every builder on every shape, verified.
#include "catch.hpp"
#include "plan/plan.hpp"
#include "plan/verify.hpp"
#include "shapes.hpp"

using namespace ho;

namespace {

std::vector<uint32_t> ring_counts(const GroupMap& map, Algorithm algorithm) {
  std::vector<uint32_t> counts = {1};
  for (uint32_t k = 2; algorithm == Algorithm::kMultiRing && k <= map.rail_count(); ++k) {
    counts.push_back(k);
  }
  return counts;
}

std::vector<uint32_t> roots(const GroupMap& map, Collective collective) {
  std::vector<uint32_t> ranks = {0};
  for (uint32_t r = 1; collective == Collective::kBroadcast && r < map.world_size(); ++r) {
    ranks.push_back(r);
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
    for (uint8_t collective = 0; collective < 4; ++collective) {
      for (uint8_t algorithm = 0; algorithm < kAlgorithmCount; ++algorithm) {
        verify_all(shape, static_cast<Collective>(collective), static_cast<Algorithm>(algorithm));
      }
    }
  }
}

TEST_CASE("fewer rails than ranks in the smallest group") {
  for (const auto& shape : test::all_shapes()) {
    if (shape.map.world_size() > 16) {
      continue;
    }
    for (uint32_t rails = 1; rails < shape.map.rail_count(); ++rails) {
      const test::Shape fewer = {shape.name + " on " + std::to_string(rails) + " rails",
                                 shape.map.with_rails(rails)};
      for (uint8_t collective = 0; collective < 4; ++collective) {
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
    for (const auto collective :
         {Collective::kAllGather, Collective::kReduceScatter, Collective::kAllReduce}) {
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
