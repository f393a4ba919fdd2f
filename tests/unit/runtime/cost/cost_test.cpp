// The method's published and derived figures.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "catch.hpp"
#include "cost/memory.hpp"
#include "cost/step_time.hpp"
#include "method_figures.hpp"

using ho::Collective;
using paro::CollectiveSeconds;
using paro::Links;
using paro::ModelSize;
using paro::parse_strategy;
using paro::WorldAlgorithm;
using paro::WorldShape;
using paro::test::check_figure;
using paro::test::seven_billion_memory_gb;

namespace {

constexpr WorldShape kWorld{4, 8};
constexpr ModelSize kSeven{7e9, 7e9};
constexpr ModelSize kSixtyFive{65e9, 65e9};
constexpr double kGigabit = 1e9 / 8;
// 2000 Gb/s inside a group, 80 Gb/s between groups for each rank, flat rings.
constexpr Links kNicPerRank{2000 * kGigabit, 80 * kGigabit, 8, WorldAlgorithm::kRing};
constexpr Links kOneNic{2000 * kGigabit, 80 * kGigabit, 1, WorldAlgorithm::kRing};

double gigabytes(const std::string& strategy, const ModelSize& model) {
  return paro::state_bytes(*parse_strategy(strategy), model, {}, kWorld).total() / 1e9;
}

double communication(const std::string& strategy, const ModelSize& model, const Links& links) {
  return paro::step_seconds(*parse_strategy(strategy), model, {}, kWorld, links).communication(10);
}

}  // namespace

TEST_CASE("memory of 7B on 32 ranks in groups of 8 is what the paper has") {
  const auto& figures = seven_billion_memory_gb();
  REQUIRE(figures.size() == paro::kStrategyCount);
  for (const auto& [strategy, figure] : figures) {
    INFO(strategy);
    check_figure(gigabytes(strategy, kSeven), figure, 0.1);
  }
}

TEST_CASE("65B fits 80 GB with four strategies only") {
  const std::map<std::string, double> figures{
      {"IIG", 56.9}, {"IGG", 44.7}, {"GIG", 44.7}, {"GGG", 32.5}};
  for (const auto& strategy : paro::all_strategies()) {
    const std::string name = letters(strategy);
    INFO(name);
    const auto figure = figures.find(name);
    CHECK((gigabytes(name, kSixtyFive) <= 80) == (figure != figures.end()));
    if (figure != figures.end()) {
      check_figure(gigabytes(name, kSixtyFive), figure->second, 0.1);
    }
  }
}

TEST_CASE("communication of 7B is what the paper has, with a NIC for each rank") {
  const std::map<std::string, std::pair<double, double>> figures{{"NII", {0.80, 0.01}},
                                                                 {"INI", {1.29, 0.01}},
                                                                 {"III", {1.73, 0.01}},
                                                                 {"IIG", {1.73, 0.01}},
                                                                 {"NIG", {1.98, 0.01}},
                                                                 {"ING", {2.47, 0.01}},
                                                                 {"NNG", {2.71, 0.01}},
                                                                 {"IGG", {14.7, 0.1}},
                                                                 {"NGG", {14.9, 0.1}},
                                                                 {"GIG", {27.7, 0.1}},
                                                                 {"GNG", {28.5, 0.1}},
                                                                 {"GGG", {40.7, 0.1}}};
  for (const auto& [strategy, figure] : figures) {
    INFO(strategy);
    check_figure(communication(strategy, kSeven, kNicPerRank), figure.first, figure.second);
  }
}

TEST_CASE("communication of 65B is what the paper has, with a NIC for each rank") {
  const std::map<std::string, std::pair<double, double>> figures{
      {"IIG", {16.1, 0.1}}, {"IGG", {136, 1}}, {"GIG", {258, 1}}, {"GGG", {378, 1}}};
  for (const auto& [strategy, figure] : figures) {
    INFO(strategy);
    check_figure(communication(strategy, kSixtyFive, kNicPerRank), figure.first, figure.second);
  }
}

TEST_CASE("communication of 7B is what the paper has where a group shares one NIC") {
  const std::map<std::string, double> figures{{"NNI", 2.20},
                                              {"NII", 2.64},
                                              {"NNG", 2.71},
                                              {"NIG", 2.90},
                                              {"INI", 3.13},
                                              {"ING", 3.39},
                                              {"IIG", 3.57},
                                              {"III", 3.57}};
  for (const auto& [strategy, figure] : figures) {
    INFO(strategy);
    check_figure(communication(strategy, kSeven, kOneNic), figure, 0.01);
  }
}

TEST_CASE("frozen parameters cost gathers but no gradients") {
  const ModelSize frozen{65e9, 65e9 / 16};
  const auto full = paro::step_seconds(*parse_strategy("IIG"), kSixtyFive, {}, kWorld, kNicPerRank);
  const auto some = paro::step_seconds(*parse_strategy("IIG"), frozen, {}, kWorld, kNicPerRank);
  CHECK(some.parameters == Approx(full.parameters));
  CHECK(some.gradients == Approx(full.gradients / 16));
  CHECK(some.sync_g == Approx(full.sync_g / 16));
  CHECK(some.sync_p == Approx(full.sync_p / 16));
}

TEST_CASE("HO-Ring uses every NIC; with one it saves what a flat ring pushes too much") {
  const Links eight{2000 * kGigabit, 80 * kGigabit, 8, WorldAlgorithm::kHoRing};
  const Links one{2000 * kGigabit, 80 * kGigabit, 1, WorldAlgorithm::kHoRing};
  const double bytes = 14e9;
  const double ring = CollectiveSeconds(kWorld, kNicPerRank).world(Collective::kAllGather, bytes);
  CHECK(ring == Approx(31.0 / 32 * bytes / 10e9));
  const double intra_block = 7.0 / 8 * bytes / 4 / 250e9;
  CHECK(CollectiveSeconds(kWorld, eight).world(Collective::kAllGather, bytes) ==
        Approx(0.75 * bytes / 8 / 10e9 + intra_block));
  CHECK(CollectiveSeconds(kWorld, one).world(Collective::kAllGather, bytes) ==
        Approx(0.75 * bytes / 10e9 + intra_block));
}

TEST_CASE("there are as many flat rings as NICs that ranks of a group can have") {
  const double bytes = 14e9;
  const auto seconds = [&](double nics, double intra_bytes_per_s) {
    const Links links{intra_bytes_per_s, 80 * kGigabit, nics, WorldAlgorithm::kMultiRing};
    return CollectiveSeconds(kWorld, links).world(Collective::kAllGather, bytes);
  };
  const double carried = 31.0 / 32 * bytes;
  CHECK(seconds(1, 2000 * kGigabit) ==
        Approx(CollectiveSeconds(kWorld, kNicPerRank).world(Collective::kAllGather, bytes)));
  CHECK(seconds(4, 2000 * kGigabit) == Approx(carried / (4 * 10e9)));
  CHECK(seconds(16, 2000 * kGigabit) == Approx(carried / (8 * 10e9)));
  // Each rank sends one ring's bytes to another group, the others' inside.
  CHECK(seconds(8, 400 * kGigabit) == Approx(7.0 / 8 * carried / 50e9));
}

TEST_CASE("worlds of one group and groups of one rank use one kind of link only") {
  CHECK(CollectiveSeconds({1, 8}, kNicPerRank).inter(Collective::kAllGather, 1e9) == 0);
  CHECK(CollectiveSeconds({4, 1}, kNicPerRank).intra(Collective::kAllGather, 1e9) == 0);
  CHECK(CollectiveSeconds({1, 8}, kNicPerRank).world(Collective::kAllGather, 1e9) ==
        Approx(CollectiveSeconds({1, 8}, kNicPerRank).intra(Collective::kAllGather, 1e9)));
  for (const auto algorithm :
       {WorldAlgorithm::kRing, WorldAlgorithm::kMultiRing, WorldAlgorithm::kHoRing}) {
    Links links = kNicPerRank;
    links.world = algorithm;
    CHECK(CollectiveSeconds({4, 1}, links).world(Collective::kAllGather, 1e9) ==
          Approx(0.75 * 1e9 / 10e9));
    CHECK(CollectiveSeconds({1, 1}, links).world(Collective::kAllGather, 1e9) == 0);
  }
}

TEST_CASE("calls and steps take their time beside the bytes, all-reduces once") {
  Links links{2000 * kGigabit, 80 * kGigabit, 8, WorldAlgorithm::kHoRing};
  const auto seconds = [&](Collective collective) {
    const CollectiveSeconds made(kWorld, links);
    return std::array{
        made.intra(collective, 1e9), made.inter(collective, 1e9), made.world(collective, 1e9)};
  };
  const auto bytes_only = seconds(Collective::kAllReduce);
  links.intra_call_s = 0.1;
  links.inter_call_s = 0.2;
  links.world_call_s = 0.3;
  links.intra_latency_s = 10;
  links.inter_latency_s = 100;
  const auto with_latency = seconds(Collective::kAllReduce);
  // Two passes: one message inside a group, three between four groups.
  CHECK(with_latency[0] - bytes_only[0] == Approx(0.1 + 2 * 10));
  CHECK(with_latency[1] - bytes_only[1] == Approx(0.2 + 6 * 100));
  CHECK(with_latency[2] - bytes_only[2] == Approx(0.3 + 2 * 10 + 6 * 100));
  links.world = WorldAlgorithm::kMultiRing;
  const auto rings = seconds(Collective::kAllGather);
  CHECK(rings[0] == Approx(0.1 + 7 * 10 + 7.0 / 8 * 1e9 / 250e9));
}

TEST_CASE("two levels are what their short form is, and groups of any size tile them") {
  for (const auto algorithm :
       {WorldAlgorithm::kRing, WorldAlgorithm::kMultiRing, WorldAlgorithm::kHoRing}) {
    Links links{2000 * kGigabit, 80 * kGigabit, 2, algorithm};
    const CollectiveSeconds short_form(kWorld, links);
    links.levels = levels_of(kWorld, links);
    const CollectiveSeconds levels(kWorld, links);
    CHECK(levels.intra(Collective::kAllGather, 1e9) ==
          short_form.intra(Collective::kAllGather, 1e9));
    CHECK(levels.inter(Collective::kAllReduce, 1e9) ==
          short_form.inter(Collective::kAllReduce, 1e9));
    CHECK(levels.world(Collective::kAllReduce, 1e9) ==
          short_form.world(Collective::kAllReduce, 1e9));
    const auto in_levels = levels.world_links(ho::Collective::kAllGather, 1e9);
    const auto in_short = short_form.world_links(ho::Collective::kAllGather, 1e9);
    CHECK(in_levels.waits_inside == in_short.waits_inside);
    CHECK(in_levels.beside == in_short.beside);
    // Two nodes a group: its links are a node's, too, and the 16 that own a part share two NICs.
    const CollectiveSeconds pairs({2, 16}, links);
    CHECK(pairs.world(Collective::kAllReduce, 1e9) == levels.world(Collective::kAllReduce, 1e9));
    CHECK(pairs.intra(Collective::kAllGather, 1e9) > levels.intra(Collective::kAllGather, 1e9));
    CHECK(pairs.inter(Collective::kAllGather, 1e9) == Approx(0.5 * 1e9 / (2 * 80 * kGigabit / 8)));
    // Half a node a group: the other half's ranks are as near.
    const CollectiveSeconds halves({8, 4}, links);
    CHECK(halves.intra(Collective::kAllGather, 1e9) < levels.intra(Collective::kAllGather, 1e9));
  }
}

TEST_CASE("a collective over all ranks takes of the links that are not the slowest their part") {
  // HO-Ring with 1 GB, 4 groups of 8: 7/8 go in and out of a rank, 3/4 leave a group by two NICs.
  const auto of = [](double nic_gigabits) {
    const Links links{2000 * kGigabit, nic_gigabits * kGigabit, 2, WorldAlgorithm::kHoRing};
    return CollectiveSeconds(kWorld, links).world_links(Collective::kAllGather, 1e9);
  };
  CHECK_FALSE(of(80).waits_inside);
  CHECK(of(80).beside == Approx(3.5 / 37.5));
  CHECK(of(8000).waits_inside);
  CHECK(of(8000).beside == Approx(0.375 / 3.5));
  // Where both take as long neither is beside the other.
  CHECK(of(80 * 37.5 / 3.5 * 1.001).beside == Approx(1).epsilon(0.01));
  CHECK(of(80 * 37.5 / 3.5 * 0.999).beside == Approx(1).epsilon(0.01));
}

TEST_CASE("the paper's T and indicator follow their formulas") {
  CHECK(paro::paper_step_seconds(2.0, 3.0) == 3.0);
  CHECK(paro::throughput_indicator(2.0) == Approx(-std::log(2.0)));
}

TEST_CASE("links half as good take twice as long between nodes, and as long inside") {
  Links links = kOneNic;
  links.intra_latency_s = links.inter_latency_s = 1e-5;
  links.intra_call_s = links.inter_call_s = links.world_call_s = 1e-3;
  const Collective gather = Collective::kAllGather;
  const auto check = [&](const WorldShape& world, const Links& whole, double inside) {
    const CollectiveSeconds before(world, whole);
    const CollectiveSeconds after(world, half_as_good(world, whole));
    CHECK(after.intra(gather, 1e9) == Approx(inside * before.intra(gather, 1e9)));
    if (world.group_count > 1) {
      CHECK(after.inter(gather, 1e9) == Approx(2 * before.inter(gather, 1e9)));
    }
  };
  check(kWorld, links, 1);
  check({1, 8}, links, 2);  // all links that there are
  Links levels = links;
  levels.levels = levels_of(kWorld, links);
  check(kWorld, levels, 1);
  levels.levels[0].size = 1;  // of ranks alone on their nodes
  levels.levels[1].size = 32;
  check({4, 8}, levels, 2);
  Links protocols = links;
  protocols.protocols = {levels_of(kWorld, links)};
  check(kWorld, protocols, 1);
  // On one node levels above it join nothing.
  levels.levels[0].size = 8;
  levels.levels[1].size = 1;
  CHECK(half_as_good({1, 8}, levels).levels[0].rate == levels.levels[0].rate / 2);
}
