#include "group/group_map.hpp"

#include "catch.hpp"

using namespace ho;

TEST_CASE("shapes are parsed and printed") {
  for (const char* text : {"1x1", "4x4", "2x8", "1+3", "3+5+1"}) {
    const auto map = GroupMap::parse(text);
    REQUIRE(map.ok());
    CHECK(map->to_string() == text);
  }
  CHECK(GroupMap::parse("8")->to_string() == "1x8");
  for (const char* text : {"",
                           "x",
                           "4x",
                           "x4",
                           "0x4",
                           "4x0",
                           "1+",
                           "+1",
                           "1+0",
                           "-1",
                           "4x4x4",
                           "65537",
                           "300x300",
                           "99999999999",
                           " 4x4",
                           "4x4 "}) {
    INFO(text);
    const auto map = GroupMap::parse(text);
    REQUIRE_FALSE(map.ok());
    CHECK(map.status().code() == StatusCode::kInvalidArgument);
  }
}

TEST_CASE("ranks convert between index spaces and back") {
  const auto map = GroupMap::parse("3+5+1");
  REQUIRE(map.ok());
  CHECK(map->world_size() == 9);
  CHECK(map->rail_count() == 1);
  CHECK_FALSE(map->equal_groups());
  for (uint32_t r = 0; r < map->world_size(); ++r) {
    const GlobalRank rank(r);
    CHECK(map->rank_at(map->group_of(rank), map->group_rank_of(rank)) == rank);
    CHECK(map->rail_of(rank).has_value() == (map->group_rank_of(rank).value() < 1));
  }
  CHECK(map->group_ahead(GroupIndex(2), 1) == GroupIndex(0));
  CHECK(map->group_behind(GroupIndex(0), 1) == GroupIndex(2));
  CHECK(map->group_behind(GroupIndex(0), 5) == GroupIndex(1));
}

TEST_CASE("fewer rails leave the ranks beyond them without one") {
  const auto map = GroupMap::parse("2x4");
  REQUIRE(map.ok());
  const GroupMap two = map->with_rails(2);
  CHECK(two.rail_count() == 2);
  CHECK(two.equal_groups());
  CHECK(two.to_string() == "2x4");
  CHECK(two.rail_of(GlobalRank(5)) == RailIndex(1));
  CHECK_FALSE(two.rail_of(GlobalRank(6)).has_value());
  CHECK_FALSE(two == *map);
  CHECK(map->with_rails(0).rail_count() == 1);
  CHECK(map->with_rails(9) == *map);
}

TEST_CASE("labels group ranks placed in any order") {
  const auto map = GroupMap::from_labels({"b", "a", "b", "a", "c"});
  REQUIRE(map.ok());
  CHECK(map->group_count() == 3);
  CHECK(map->members(GroupIndex(0)) == std::vector{GlobalRank(0), GlobalRank(2)});
  CHECK(map->members(GroupIndex(1)) == std::vector{GlobalRank(1), GlobalRank(3)});
  CHECK(map->rail_rank(GroupIndex(1), RailIndex(0)) == GlobalRank(1));
}

TEST_CASE("members that are no partition are refused") {
  CHECK_FALSE(GroupMap::from_members({}).ok());
  CHECK_FALSE(GroupMap::from_members({{}}).ok());
  CHECK_FALSE(GroupMap::from_members({{GlobalRank(0)}, {GlobalRank(0)}}).ok());
  CHECK_FALSE(GroupMap::from_members({{GlobalRank(1)}}).ok());
}
