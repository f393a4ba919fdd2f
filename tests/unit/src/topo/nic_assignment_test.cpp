#include "topo/nic_assignment.hpp"

#include <algorithm>
#include <random>

#include "catch.hpp"

using ho::assign_evenly;
using Costs = std::vector<std::vector<int64_t>>;
using NicChoice = std::vector<size_t>;

namespace {

std::vector<size_t> loads(const NicChoice& chosen, size_t nics) {
  std::vector<size_t> counts(nics, 0);
  for (const size_t nic : chosen) {
    ++counts.at(nic);
  }
  return counts;
}

int64_t total(const Costs& costs, const NicChoice& chosen) {
  int64_t sum = 0;
  for (size_t rank = 0; rank < chosen.size(); ++rank) {
    sum += costs[rank][chosen[rank]];
  }
  return sum;
}

bool even(const std::vector<size_t>& counts) {
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  return *most - *least <= 1;
}

// Every assignments there is: the least sum among the even ones.
int64_t least_total(const Costs& costs) {
  const size_t nics = costs.front().size();
  NicChoice chosen(costs.size(), 0);
  int64_t least = INT64_MAX;
  for (;;) {
    if (even(loads(chosen, nics))) {
      least = std::min(least, total(costs, chosen));
    }
    size_t rank = 0;
    while (rank < chosen.size() && ++chosen[rank] == nics) {
      chosen[rank++] = 0;
    }
    if (rank == chosen.size()) {
      return least;
    }
  }
}

}  // namespace

TEST_CASE("equally near NICs are dealt out in turn") {
  for (size_t ranks = 1; ranks <= 9; ++ranks) {
    for (size_t nics = 1; nics <= 9; ++nics) {
      const NicChoice chosen = assign_evenly(Costs(ranks, std::vector<int64_t>(nics, 7)));
      for (size_t rank = 0; rank < ranks; ++rank) {
        CHECK(chosen[rank] == rank % nics);
      }
    }
  }
}

TEST_CASE("a rank that is near to all leaves the only near NIC to another") {
  CHECK(assign_evenly({{0, 0}, {0, 9}}) == NicChoice{1, 0});
  CHECK(assign_evenly({{0, 9}, {0, 9}, {9, 0}}) == NicChoice{0, 0, 1});
  CHECK(assign_evenly({{0, 9}, {0, 9}, {0, 9}, {0, 9}, {9, 0}, {9, 0}, {9, 0}, {9, 0}}) ==
        NicChoice{0, 0, 0, 0, 1, 1, 1, 1});
}

TEST_CASE("every NIC is used before one is shared, however far it is") {
  CHECK(loads(assign_evenly({{0, 30}, {0, 30}, {0, 30}, {0, 30}}), 2) == std::vector<size_t>{2, 2});
}

TEST_CASE("a forbidden NIC stays unused") {
  const int64_t no = ho::kForbiddenNic;
  CHECK(assign_evenly({{5, no}, {5, no}, {5, 1}}) == NicChoice{0, 0, 1});
  CHECK(assign_evenly({{5, no}, {5, no}, {5, no}}) == NicChoice{0, 0, 0});
}

TEST_CASE("assignments are even and of least cost") {
  std::mt19937 random(20261120);
  for (int round = 0; round < 300; ++round) {
    const size_t ranks = 1 + random() % 6;
    const size_t nics = 1 + random() % 4;
    Costs costs(ranks, std::vector<int64_t>(nics));
    for (auto& row : costs) {
      std::generate(
          row.begin(), row.end(), [&] { return static_cast<int64_t>(random() % 4) * 10; });
    }
    const NicChoice chosen = assign_evenly(costs);
    REQUIRE(chosen.size() == ranks);
    CHECK(even(loads(chosen, nics)));
    CHECK(total(costs, chosen) == least_total(costs));
    CHECK(chosen == assign_evenly(costs));
  }
}

TEST_CASE("no rank needs no NIC") {
  CHECK(assign_evenly({}).empty());
}
