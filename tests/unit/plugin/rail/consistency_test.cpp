#include "core/rail/consistency.hpp"

#include "catch.hpp"

namespace ho::plugin::rail {

TEST_CASE("texts that are equal have no difference") {
  CHECK_FALSE(first_difference("", ""));
  CHECK_FALSE(first_difference("a=1\nb=2\n", "a=1\nb=2\n"));
}

TEST_CASE("the first line that differs is named with both values") {
  const auto found = first_difference("a=1\nb=2\nc=3\n", "a=1\nb=4\nc=5\n");
  REQUIRE(found);
  CHECK(found->what == "b");
  CHECK(found->first == "2");
  CHECK(found->second == "4");
  CHECK(first_difference("b=\n", "b=x=y")->first == "(none)");
  CHECK(first_difference("b=\n", "b=x=y")->second == "x=y");
}

TEST_CASE("texts of another shape, as of another build, differ in a bounded printable way") {
  const auto longer = first_difference("a=1\n", "a=1\nb=2\n");
  REQUIRE(longer);
  CHECK(longer->what == "settings");
  CHECK(longer->first == "(none)");
  CHECK(longer->second == "b=2");
  CHECK(first_difference("a=1\n", "b=1\n")->what == "settings");
  CHECK(first_difference("no equals", "other")->what == "settings");
  const auto wild = first_difference("a=\x1b[2J", std::string("a=") + std::string(4000, 'y'));
  REQUIRE(wild);
  CHECK(wild->first == "?[2J");
  CHECK(wild->second.size() <= 100);
}

}  // namespace ho::plugin::rail
