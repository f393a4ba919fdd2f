#include "planner/price.hpp"

#include "catch.hpp"
#include "planner/quantity.hpp"

namespace paro {

TEST_CASE("cost per million tokens") {
  // 1000 tokens a second are a million in 1000 s.
  const TokenCost cost = per_million_tokens(10, 10'000, {3.6, 500, 0.2});
  CHECK(cost.kwh == Approx(0.5 * 1000 / 3600));
  CHECK(cost.money == Approx(1.0 + 0.2 * cost.kwh));
  CHECK(per_million_tokens(10, 10'000, {3.6, 0, 0}).money == Approx(1.0));
  CHECK(per_million_tokens(10, 10'000, {0, 500, 0}).money == 0);
}

TEST_CASE("quantities for people") {
  CHECK(bytes_text(0) == "0 B");
  CHECK(bytes_text(63.38e9) == "63.4 GB");
  CHECK(bytes_text(999.9e6) == "1 GB");
  CHECK(bytes_text(1.04e12) == "1.04 TB");
  CHECK(bytes_text(12'345e12) == "12345 TB");
  CHECK(seconds_text(0) == "0 s");
  CHECK(seconds_text(55.245) == "55.2 s");
  CHECK(seconds_text(1366.996) == "1367 s");
  CHECK(seconds_text(0.0121) == "12.1 ms");
  CHECK(seconds_text(2e-9) == "0.002 us");
  CHECK(count_text(7e9) == "7 billion");
  CHECK(count_text(437.5e6) == "438 million");
  CHECK(count_text(3) == "3");
}

}  // namespace paro
