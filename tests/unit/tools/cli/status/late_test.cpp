#include "cli/status/late.hpp"

#include <cmath>

#include "catch.hpp"

using namespace ho;

namespace {

// The rank was in calls `first` to `last` for so many milliseconds each.
RecentCalls calls_of(uint32_t rank, uint64_t first, uint64_t last, int64_t ms) {
  RecentCalls calls{.rank = rank, .key = "a"};
  for (uint64_t number = first; number <= last; ++number) {
    calls.ns[{0, number}] = ms * 1'000'000;
  }
  return calls;
}

}  // namespace

TEST_CASE("who is in calls for the shortest time has entered them last") {
  const auto late = lateness_of({calls_of(0, 1, 20, 30),
                                 calls_of(1, 5, 25, 32),
                                 calls_of(2, 3, 22, 10),
                                 calls_of(3, 4, 24, 28)});
  REQUIRE(late.size() == 1);
  CHECK(late[0].calls == 16);  // 5 to 20
  CHECK(late[0].last == 2);
  CHECK(late[0].call_s == 0.030);
  CHECK(std::abs(late[0].late_s.at(2) - 0.020) < 1e-9);
  CHECK(std::abs(late[0].late_s.at(1) + 0.002) < 1e-9);
  CHECK(late[0].tells());
}

TEST_CASE("of two ranks one is late by all of the difference") {
  const auto late = lateness_of({calls_of(0, 1, 8, 5), calls_of(1, 1, 8, 25)});
  REQUIRE(late.size() == 1);
  CHECK(late[0].last == 0);
  CHECK(std::abs(late[0].late_s.at(0) - 0.020) < 1e-9);
}

TEST_CASE("single calls that differ from the rest decide nothing") {
  RecentCalls odd = calls_of(0, 1, 9, 20);
  for (uint64_t number = 1; number <= 4; ++number) {
    odd.ns[{0, number}] = 0;
  }
  const auto late = lateness_of({odd, calls_of(1, 1, 9, 20), calls_of(2, 1, 9, 20)});
  REQUIRE(late.size() == 1);
  CHECK(late[0].late_s.at(0) == 0);
  CHECK_FALSE(late[0].tells());
}

TEST_CASE("one rank, few calls in common and other communicators compare nothing") {
  CHECK(lateness_of({}).empty());
  CHECK(lateness_of({calls_of(0, 1, 20, 1)}).empty());
  CHECK(lateness_of({calls_of(0, 1, 20, 1), calls_of(1, 14, 30, 1)}).empty());
  RecentCalls elsewhere = calls_of(1, 1, 20, 1);
  elsewhere.key = "b";
  CHECK(lateness_of({calls_of(0, 1, 20, 1), elsewhere}).empty());
}
