#include "step/prefetch.hpp"

#include "catch.hpp"

using namespace paro;

TEST_CASE("units that are equal are gathered one ahead") {
  CHECK(automatic_prefetch({{"a", 5, 0}, {"b", 5, 0}, {"c", 4, 1}}) == 1);
}

TEST_CASE("small neighbours together hide the gather of a large unit") {
  CHECK(automatic_prefetch({{"a", 10, 0}, {"b", 5, 0}, {"c", 5, 0}, {"d", 5, 0}}) == 2);
  CHECK(automatic_prefetch({{"a", 4, 8}, {"b", 4, 0}, {"c", 4, 0}, {"d", 4, 0}}) == 3);
}

TEST_CASE("a unit that shares another's parameters is gathered and computes like that one") {
  CHECK(automatic_prefetch({{"a", 5, 0}, {"b", 5, 0}, {"head", 0, 0, 0}}) == 1);
  CHECK(automatic_prefetch({{"a", 10, 0}, {"b", 5, 0}, {"c", 5, 0}, {"head", 0, 0, 0}}) == 2);
}

TEST_CASE("the depth is bounded by what it costs, and by the units there are") {
  CHECK(automatic_prefetch({{"a", 99, 0}, {"b", 1, 0}, {"c", 1, 0}, {"d", 1, 0}, {"e", 1, 0}}) ==
        kMaxAutomaticPrefetch);
  CHECK(automatic_prefetch({{"a", 99, 0}, {"b", 1, 0}}) == 1);
  CHECK(automatic_prefetch({{"a", 99, 0}}) == 0);
  CHECK(automatic_prefetch({{"a", 0, 0}, {"b", 0, 0}}) == 1);
  CHECK(automatic_prefetch({}) == 0);
}
