// How many rails NICs are worth.
#include "topo/rail_choice.hpp"

#include "catch.hpp"

using ho::choose_rail_count;
using ho::deal_nics;
using ho::RailNic;

namespace {

// Ranks dealt over the NICs in turn, all of one speed.
std::vector<RailNic> node(size_t ranks, size_t nics, uint64_t speed_mbit) {
  std::vector<RailNic> dealt;
  for (size_t k = 0; k < ranks; ++k) {
    dealt.push_back({k % nics, speed_mbit});
  }
  return dealt;
}

}  // namespace

TEST_CASE("there is one rail per NIC where NICs are no faster than a rail") {
  for (size_t nics = 1; nics <= 8; ++nics) {
    for (const uint64_t speed : {uint64_t{0}, uint64_t{200}, uint64_t{10000}}) {
      CHECK(choose_rail_count({4, node(8, nics, speed)}, 0) == nics);
    }
  }
}

TEST_CASE("there are more rails where one cannot fill its NIC") {
  CHECK(choose_rail_count({2, node(8, 1, 25000)}, 0) == 3);
  CHECK(choose_rail_count({2, node(8, 1, 100000)}, 0) == 8);
  CHECK(choose_rail_count({2, node(8, 2, 25000)}, 0) == 6);
  CHECK(choose_rail_count({2, node(8, 8, 400000)}, 0) == 8);
}

TEST_CASE("the group with the fewest or slowest NICs decides") {
  CHECK(choose_rail_count({node(8, 4, 10000), node(8, 3, 10000), node(8, 4, 10000)}, 0) == 3);
  // Two NICs at 1 Gbit/s against eight at 200 Mbit/s: the eight are all of use.
  CHECK(choose_rail_count({node(8, 8, 200), node(8, 2, 1000)}, 0) == 8);
  // A slow NIC among fast ones is left out where the rest carries more.
  std::vector<RailNic> uneven = {{0, 10000}, {1, 10000}, {2, 100}};
  CHECK(choose_rail_count({uneven, uneven}, 0) == 2);
}

TEST_CASE("the smallest group bounds the rails, and what is wanted is taken") {
  CHECK(choose_rail_count({node(8, 8, 10000), node(3, 3, 10000)}, 0) == 3);
  CHECK(choose_rail_count({node(8, 1, 1000), node(4, 1, 1000)}, 2) == 2);
  CHECK(choose_rail_count({node(8, 1, 1000), node(4, 1, 1000)}, 64) == 4);
  // One group has no network between groups: all its ranks share the work.
  CHECK(choose_rail_count({node(8, 1, 1000)}, 0) == 8);
  CHECK(choose_rail_count({node(1, 1, 0), node(1, 1, 0)}, 0) == 1);
}

TEST_CASE("NICs are dealt in turn") {
  CHECK(deal_nics({{0}, {0}, {1}, {1}}) == std::vector<size_t>{0, 2, 1, 3});
  CHECK(deal_nics({{0}, {1}, {0}, {1}}) == std::vector<size_t>{0, 1, 2, 3});
  CHECK(deal_nics({{5}, {5}, {5}, {2}}) == std::vector<size_t>{0, 3, 1, 2});
  CHECK(deal_nics({}).empty());
}
