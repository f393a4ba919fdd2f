// Systems by name.
#include "bench/paro_bench/systems.hpp"

#include "catch.hpp"

namespace paro::bench {

TEST_CASE("all systems are libparo's 14 and the baselines") {
  const auto all = parse_systems("all");
  REQUIRE(all.ok());
  CHECK(all->size() == kStrategyCount + baselines().size());
  for (const System& system : *all) {
    CHECK(check(system.strategy).ok());
    CHECK(system.is_baseline == (system.world == WorldAlgorithm::kMultiRing));
  }
}

TEST_CASE("systems are taken in order and once") {
  const auto some = parse_systems("IIG,zero3,iig,GGG/ring,baselines");
  REQUIRE(some.ok());
  REQUIRE(some->size() == 3 + baselines().size() - 1);
  CHECK((*some)[0].name == "IIG");
  CHECK((*some)[1].name == "zero3");
  CHECK((*some)[2].name == "GGG/ring");
  CHECK((*some)[2].world == WorldAlgorithm::kMultiRing);
  CHECK_FALSE((*some)[2].is_baseline);
}

TEST_CASE("baselines hold the states as those systems do") {
  const auto some = parse_systems("ddp,zero1,zero2,zero3,mics,hsdp,hpz");
  REQUIRE(some.ok());
  std::string scopes;
  for (const System& system : *some) {
    scopes += letters(system.strategy) + (system.syncs_each_micro_batch ? "* " : " ");
  }
  CHECK(scopes == "NNN NNG NGG GGG III III* IGG ");
}

TEST_CASE("a system that nobody knows is refused by name") {
  for (const char* text : {"", "IIG,", "GNN", "zero4", "IIG/tree", "ring", ",", "IIG/ring/ring"}) {
    const auto parsed = parse_systems(text);
    INFO(text);
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.status().message().find("hpz, ours, baselines, all") != std::string::npos);
  }
}

}  // namespace paro::bench
