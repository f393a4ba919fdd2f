#include "base/log_quota.hpp"

#include "catch.hpp"

namespace ho {
namespace {

TEST_CASE("a log quota tells the first, then one per interval with the count of the others") {
  LogQuota quota(2, 100);
  CHECK(quota.take(1000) == 0);
  CHECK(quota.take(1001) == 0);
  CHECK_FALSE(quota.take(1002).has_value());
  CHECK_FALSE(quota.take(1100).has_value());
  CHECK(quota.take(1101) == 2);
  CHECK_FALSE(quota.take(1102).has_value());
  CHECK(quota.take(2000) == 1);
  CHECK(quota.take(3000) == 0);
}

TEST_CASE("a log quota's note is empty when nothing was left out") {
  CHECK(LogQuota::note(0).empty());
  CHECK(LogQuota::note(12) == " (12 more like it were not logged)");
}

}  // namespace
}  // namespace ho
