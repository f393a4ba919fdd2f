#include "status/others.hpp"

#include "catch.hpp"

using namespace ho;

namespace {

constexpr Deadline kEnd{std::chrono::seconds(100)};
using Line = std::pair<uint32_t, std::string_view>;

}  // namespace

TEST_CASE("what other ranks say is a line of each, also of those that say nothing") {
  OtherRanks others(1, 5, kEnd);
  others.take(3, "{\"a\": 1}\n{\"b\": 2}\n");
  others.take(0, "");
  others.take(2, "{}");
  CHECK_FALSE(others.complete());
  CHECK_FALSE(others.over(kEnd - std::chrono::nanoseconds(1)));
  CHECK(others.over(kEnd));
  CHECK(others.text() == "0 gone\n2 {}\n3 {\"a\": 1} {\"b\": 2} \n4\n");
  others.take(4, "{}");
  CHECK(others.complete());
}

TEST_CASE("a rank that was asked over two control planes is gone when both say so") {
  OtherRanks others(0, 4, kEnd);
  for (const uint32_t rank : {1U, 1U, 2U, 2U, 3U}) {
    others.expect(rank);
  }
  CHECK(others.expects(3));
  CHECK_FALSE(others.expects(0));
  others.take(1, "");
  others.take(2, "");
  others.take(3, "");
  CHECK(others.text() == "1\n2\n3 gone\n");
  others.take(1, "");
  others.take(2, "{}");
  CHECK(others.complete());
  CHECK(others.text() == "1 gone\n2 {}\n3 gone\n");
}

TEST_CASE("ranks that cannot be and second answers count for nothing") {
  OtherRanks others(1, 4, kEnd);
  for (const uint32_t rank : {1U, 4U, UINT32_MAX}) {
    others.take(rank, "{}");
  }
  others.take(2, "first");
  others.take(2, "second");
  CHECK_FALSE(others.complete());
  CHECK(others.text() == "0\n2 first\n3\n");
  CHECK(OtherRanks(0, 1, kEnd).complete());
}

TEST_CASE("what there is no room for is left out by name") {
  OtherRanks others(0, 4, kEnd);
  others.take(1, std::string(OtherRanks::kMaxBytes, 'x'));
  others.take(2, "y");
  others.take(3, "");
  CHECK(others.complete());
  CHECK(others.text().substr(OtherRanks::kMaxBytes) == "xx\n2 left out\n3 gone\n");
}

TEST_CASE("lines of other ranks are read, and nothing else is taken for one") {
  CHECK(parse_other_rank("3 {\"a\": 1}") == Line{3, "{\"a\": 1}"});
  CHECK(parse_other_rank("4294967295 gone") == Line{UINT32_MAX, "gone"});
  CHECK(parse_other_rank("4") == Line{4, ""});
  for (const char* text :
       {"", " ", "{\"error\": \"no\"}", "-1 {}", "4294967296 {}", "x 1", "1x {}"}) {
    INFO(text);
    CHECK_FALSE(parse_other_rank(text));
  }
}
