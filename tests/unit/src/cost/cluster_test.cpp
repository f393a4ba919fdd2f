// Levels: what they may be, whose rate a collective gets, which groups tile them, and the defaults.
#include "cost/cluster.hpp"

#include <limits>
#include <string>

#include "catch.hpp"
#include "cost/collective.hpp"
#include "cost/networks.hpp"

namespace ho::cost {
namespace {

Level level(const std::string& name, uint32_t size, double rate, double nics = 1) {
  Level made;
  made.name = name;
  made.size = size;
  made.rate = rate;
  made.nics = nics;
  return made;
}

// 8 ranks a node with 8 NICs of 50 GB/s, 16 nodes a pod, 4 pods at 1:7.
Cluster pods() {
  Cluster cluster{level("node", 8, 450e9), level("pod", 16, 50e9, 8), level("site", 4, 50e9, 128)};
  cluster[2].oversubscription = 7;
  return cluster;
}

std::string fault(const Cluster& cluster) {
  return check(cluster).message();
}

TEST_CASE("a table is linear between its points and level beyond them") {
  const LinearTable table({{10, 0.5}, {20, 1}});
  CHECK(table.at(0) == 0.5);
  CHECK(table.at(10) == 0.5);
  CHECK(table.at(15) == 0.75);
  CHECK(table.at(20) == 1);
  CHECK(table.at(1e9) == 1);
  CHECK(LinearTable().at(7) == 1);
}

TEST_CASE("levels that cannot be are refused in one line") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(check(pods()).ok());
  CHECK(check(pods(), 512).ok());
  CHECK(check(pods(), 500).message() ==
        "levels of 8 x 16 x 4 hold 512 ranks, not 500: takes sizes with that product");
  CHECK(fault({}) == "0 levels: takes 1 to 8");
  CHECK(fault(Cluster(9, level("x", 1, 1))) == "9 levels: takes 1 to 8");
  const auto with = [](auto change) {
    Cluster cluster = pods();
    change(cluster[1]);
    return fault(cluster);
  };
  CHECK(with([](Level& pod) { pod.rate = 0; }) ==
        "level 1 (pod): rate 0: takes bytes per second from 1 to 1e18");
  CHECK(with([&](Level& pod) { pod.rate = nan; }) ==
        "level 1 (pod): rate nan: takes bytes per second from 1 to 1e18");
  CHECK(with([](Level& pod) { pod.size = 0; }) == "level 1 (pod): size 0: takes 1 unit or more");
  CHECK(with([](Level& pod) { pod.rate = 1e300; }) ==
        "level 1 (pod): rate 1e+300: takes bytes per second from 1 to 1e18");
  CHECK_FALSE(with([](Level& pod) { pod.nics = 1e-9; }).empty());
  CHECK_FALSE(with([](Level& pod) { pod.latency_s = 1e6; }).empty());
  CHECK_FALSE(with([](Level& pod) { pod.share_of_bytes = LinearTable({{1, 1e-300}}); }).empty());
  CHECK(with([](Level& pod) { pod.nics = 0; }) ==
        "level 1 (pod): nics 0: takes a number from 1e-06 to 1000000");
  CHECK(with([](Level& pod) { pod.oversubscription = 0.5; }) ==
        "level 1 (pod): oversubscription 0.5: takes 1, all NICs at their full rate, or more, up to "
        "1000000");
  CHECK(with([](Level& pod) { pod.latency_s = -1; }) ==
        "level 1 (pod): latency -1: takes seconds from 0 to 3600");
  CHECK(with([](Level& pod) { pod.size = 1U << 22U; }) ==
        "level 1 (pod): size 4194304: with the levels below more than 16777216 ranks; takes less");
  CHECK(with([](Level& pod) {
          pod.share_of_bytes = LinearTable({{2, 1}, {1, 1}});
        }) ==
        "level 1 (pod): share of the rate at bytes 1: 1: takes shares from 1e-06 to 1, at "
        "points that ascend from 0");
  CHECK_FALSE(with([](Level& pod) { pod.share_of_units = LinearTable({{2, 0}}); }).empty());
}

std::string sizes(const Members& members) {
  return std::to_string(members[0]) + " " + std::to_string(members[1]) + " " +
         std::to_string(members[2]);
}

TEST_CASE("groups are levels, parts of them, or nothing") {
  const Cluster cluster = pods();
  CHECK(sizes(*inside_groups(cluster, 8)) == "8 1 1");
  CHECK(sizes(*between_groups(cluster, 8)) == "1 16 4");
  CHECK(sizes(*inside_groups(cluster, 4)) == "4 1 1");
  CHECK(sizes(*between_groups(cluster, 4)) == "2 16 4");
  CHECK(sizes(*inside_groups(cluster, 32)) == "8 4 1");
  CHECK(sizes(*between_groups(cluster, 32)) == "1 4 4");
  CHECK(sizes(*inside_groups(cluster, 512)) == "8 16 4");
  CHECK(sizes(*between_groups(cluster, 1)) == "8 16 4");
  CHECK(inside_groups(cluster, 12).status().message() ==
        "groups of 12 ranks: level 0 (node): size 8 is neither a multiple nor a divisor of 12");
  CHECK(inside_groups(cluster, 1024).status().message() ==
        "groups of 1024 ranks: there are 512; takes a divisor of these");
  CHECK_FALSE(inside_groups(cluster, 0).ok());
}

TEST_CASE("the sizes of groups that tile the levels") {
  CHECK(group_sizes(pods()) == std::vector<uint64_t>{2, 4, 8, 16, 32, 64, 128, 256});
  CHECK(group_sizes({level("node", 6, 1), level("world", 1, 1)}) == std::vector<uint64_t>{2, 3});
  CHECK(group_sizes({level("rank", 1, 1)}).empty());
}

TEST_CASE("the sizes next to one are those that tile") {
  using Sizes = std::vector<uint64_t>;
  CHECK(group_sizes_near(pods(), 12) == Sizes{8, 16});
  CHECK(group_sizes_near(pods(), 8) == Sizes{4, 16});
  CHECK(group_sizes_near(pods(), 1) == Sizes{2});
  CHECK(group_sizes_near(pods(), 1000) == Sizes{256});
  CHECK(group_sizes_near({level("rank", 1, 1)}, 3).empty());
}

TEST_CASE("ranks at any positions are members where all units have as many of them") {
  const Cluster cluster{level("node", 2, 1), level("pod", 3, 1), level("site", 2, 1)};
  const auto found = [&](const std::vector<uint64_t>& positions) {
    const auto members = members_at(cluster, positions);
    return members ? sizes(*members) : "none";
  };
  CHECK(found({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}) == "2 3 2");
  CHECK(found({11}) == "1 1 1");
  CHECK(found({5, 4}) == "2 1 1");
  CHECK(found({9, 1, 3, 7}) == "1 2 2");  // of either pod two nodes, not the same
  CHECK(found({0, 1, 6, 7}) == "2 1 2");
  CHECK(found({0, 1, 2}) == "none");  // of one node both ranks, of the other one
  CHECK(found({0, 1, 2, 4}) == "none");
  CHECK(found({0, 2, 4, 6}) == "none");  // three nodes of a pod, one of the other
  CHECK(found({0, 2, 4, 7, 8, 10}) == "1 3 2");
  CHECK(found({0, 0}) == "none");
  CHECK(found({0, 12}) == "none");
  CHECK(found({}) == "none");
}

TEST_CASE("what a collective gets of a boundary") {
  const Cluster cluster = pods();
  const auto rate = [&](const Members& members, size_t at, double flows) {
    LevelWork work;
    work.flows = flows;
    return rate_of(cluster, members, at, work);
  };
  CHECK(rate(all_ranks(cluster), 0, 1) == 450e9);
  CHECK(rate(all_ranks(cluster), 1, 1) == 50e9);
  CHECK(rate(all_ranks(cluster), 1, 8) == 400e9);
  // One rank of each node: the other seven do the same, each has its NIC.
  CHECK(rate(*between_groups(cluster, 8), 1, 1) == 50e9);
  // 128 NICs of a pod get a seventh together.
  CHECK(rate(all_ranks(cluster), 2, 128) == Approx(128 * 50e9 / 7));
  CHECK(rate(all_ranks(cluster), 2, 8) == 400e9);
  CHECK(rate(*between_groups(cluster, 128), 2, 1) == Approx(50e9 / 7));
}

TEST_CASE("shares of the rate are of the message's bytes and the units that take part") {
  Cluster cluster = pods();
  cluster[1].share_of_bytes = LinearTable({{0, 0}, {100, 1}});
  cluster[1].share_of_units = LinearTable({{1, 1}, {64, 0.5}});
  LevelWork work;
  work.flows = 8;
  work.message = 50;
  CHECK(rate_of(cluster, all_ranks(cluster), 1, work) == Approx(400e9 / 2 / 2));
}

TEST_CASE("every network has defaults with a source") {
  REQUIRE(known_networks().size() == 6);
  for (const Network& network : known_networks()) {
    INFO(network.name);
    CHECK_FALSE(network.source.empty());
    CHECK(check({with_defaults(level("x", 2, 1e9), network)}).ok());
    CHECK(find_network(network.name) == &network);
  }
  CHECK(find_network("token ring") == nullptr);
  CHECK(with_defaults(level("x", 2, 1e9), *find_network("nvlink")).latency_s == Approx(3.4e-6));
}

}  // namespace
}  // namespace ho::cost
