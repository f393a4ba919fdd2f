#include "planner/price.hpp"

#include "catch.hpp"

namespace paro {

TEST_CASE("a million tokens cost what their time and energy cost") {
  // 1000 tokens a second are a million in 1000 s.
  const TokenCost cost = per_million_tokens(10, 10'000, {3.6, 500, 0.2});
  CHECK(cost.kwh == Approx(0.5 * 1000 / 3600));
  CHECK(cost.money == Approx(1.0 + 0.2 * cost.kwh));
  CHECK(per_million_tokens(10, 10'000, {3.6, 0, 0}).money == Approx(1.0));
  CHECK(per_million_tokens(10, 10'000, {0, 500, 0}).money == 0);
}

}  // namespace paro
