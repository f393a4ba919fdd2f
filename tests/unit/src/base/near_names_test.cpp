#include "base/near_names.hpp"

#include "catch.hpp"

namespace ho {

TEST_CASE("edits of one character are counted, in either case") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("h100", "H100") == 0);
  CHECK(edit_distance("h100", "h10") == 1);
  CHECK(edit_distance("a100", "h100") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("", "abc") == 3);
}

TEST_CASE("near names come first by distance") {
  const std::vector<std::string_view> known{"a100-40", "a100-80", "h100-sxm", "l4", "l40s"};
  CHECK(near_names("a100-60", known) == std::vector<std::string_view>{"a100-40", "a100-80"});
  CHECK(near_names("h100", known) == std::vector<std::string_view>{"h100-sxm"});
  CHECK(near_names("h1000", known) == std::vector<std::string_view>{"h100-sxm"});
  CHECK(near_names("l40", known) == std::vector<std::string_view>{"l4", "l40s"});
  CHECK(near_names("a100-60", known, 1).size() == 1);
  CHECK(near_names("zebra", known).empty());
  CHECK(near_names(std::string(1 << 20U, 'a'), known).empty());
  CHECK(near_names_text("zebra", {"l4", "l40s"}) == "; takes l4, l40s");
  CHECK(near_names_text("l40", known) == "; near it: l4, l40s");
}

}  // namespace ho
