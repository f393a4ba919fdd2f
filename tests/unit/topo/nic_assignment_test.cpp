#include "topo/nic_assignment.hpp"

#include <algorithm>
#include <random>

#include "catch.hpp"

using ho::assign_evenly;
using Costs = std::vector<std::vector<int64_t>>;
using NicChoice = std::vector<size_t>;

namespace {

std::vector<size_t> loads(const NicChoice& seats, size_t nics) {
  std::vector<size_t> counts(nics, 0);
  for (const size_t nic : seats) {
    ++counts.at(nic);
  }
  return counts;
}

int64_t total(const Costs& costs, const NicChoice& seats) {
  int64_t sum = 0;
  for (size_t rank = 0; rank < seats.size(); ++rank) {
    sum += costs[rank][seats[rank]];
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
  NicChoice seats(costs.size(), 0);
  int64_t least = INT64_MAX;
  for (;;) {
    if (even(loads(seats, nics))) {
      least = std::min(least, total(costs, seats));
    }
    size_t rank = 0;
    while (rank < seats.size() && ++seats[rank] == nics) {
      seats[rank++] = 0;
    }
    if (rank == seats.size()) {
      return least;
    }
  }
}

}  // namespace

TEST_CASE("equally near NICs are dealt out in turn") {
  for (size_t ranks = 1; ranks <= 9; ++ranks) {
    for (size_t nics = 1; nics <= 9; ++nics) {
      const NicChoice seats = assign_evenly(Costs(ranks, std::vector<int64_t>(nics, 7)));
      for (size_t rank = 0; rank < ranks; ++rank) {
        CHECK(seats[rank] == rank % nics);
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
    const NicChoice seats = assign_evenly(costs);
    REQUIRE(seats.size() == ranks);
    CHECK(even(loads(seats, nics)));
    CHECK(total(costs, seats) == least_total(costs));
    CHECK(seats == assign_evenly(costs));
  }
}

TEST_CASE("nobody needs no seat") {
  CHECK(assign_evenly({}).empty());
}
