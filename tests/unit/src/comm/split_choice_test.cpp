#include "comm/split_choice.hpp"

#include <algorithm>

#include "catch.hpp"

namespace ho {
namespace {

std::vector<std::vector<std::byte>> encoded(const std::vector<ColorKey>& values) {
  std::vector<std::vector<std::byte>> blobs;
  for (const ColorKey& value : values) {
    blobs.push_back(encode(value));
  }
  return blobs;
}

std::vector<uint32_t> numbers_of(const std::vector<GlobalRank>& ranks) {
  std::vector<uint32_t> numbers;
  for (const GlobalRank rank : ranks) {
    numbers.push_back(rank.value());
  }
  return numbers;
}

}  // namespace

TEST_CASE("a part of a split has the ranks of one color by key, then by rank") {
  const auto blobs = encoded({{1, 5, 3}, {2, 0, 3}, {1, -7, 3}, {1, 5, 3}});
  const auto choice = choose_split("split 1", blobs, 1, GlobalRank(3));
  REQUIRE(choice.ok());
  CHECK(numbers_of(choice->members) == std::vector<uint32_t>{2, 0, 3});
  CHECK(choice->self == GlobalRank(2));
}

TEST_CASE("each color of a split has an id of its own, from the highest that a rank proposed") {
  const auto blobs = encoded({{9, 0, 4}, {-1, 0, 11}, {2, 0, 7}});
  const auto id_of = [&](int32_t color, uint32_t self) {
    const auto choice = choose_split("split 1", blobs, color, GlobalRank(self));
    REQUIRE(choice.ok());
    CHECK(choice->last_id == 13);
    return choice->id;
  };
  CHECK(id_of(-1, 1) == 11);
  CHECK(id_of(2, 2) == 12);
  CHECK(id_of(9, 0) == 13);
}

TEST_CASE("a split into more colors than there are ids left is refused with both numbers") {
  const auto last = encoded({{0, 0, 65535}, {0, 1, 2}});
  const auto choice = choose_split("split 4", last, 0, GlobalRank(0));
  REQUIRE(choice.ok());
  CHECK(choice->id == 65535);
  CHECK(choice->last_id == 65535);

  const auto one_more = encoded({{0, 0, 65535}, {1, 0, 2}});
  const Status refused = choose_split("split 4", one_more, 0, GlobalRank(0)).status();
  CHECK(refused.code() == StatusCode::kUnsupported);
  CHECK(refused.message() == "split 4: 2 colors need more communicators than the 1 that are left");
}

TEST_CASE("a color and key that were cut, or have bytes too many, are refused") {
  auto blobs = encoded({{0, 0, 1}, {0, 0, 1}});
  blobs[1].pop_back();
  const Status cut = choose_split("split 1", blobs, 0, GlobalRank(0)).status();
  CHECK(cut.code() == StatusCode::kProtocol);
  CHECK(cut.message().starts_with("split: a color and key that "));
  blobs[1].resize(blobs[0].size() + 1);
  CHECK(choose_split("split 1", blobs, 0, GlobalRank(0)).status().code() == StatusCode::kProtocol);
  blobs[1].clear();
  CHECK(choose_split("split 1", blobs, 0, GlobalRank(0)).status().code() == StatusCode::kProtocol);
}

TEST_CASE("communicator ids of splits differ by parent, number and color") {
  std::vector<uint64_t> ids;
  for (const uint64_t parent : {1U, 2U}) {
    for (const uint32_t split : {1U, 2U}) {
      for (const int32_t color : {0, 1, 2}) {
        ids.push_back(communicator_id_of_split(parent, split, color));
      }
    }
  }
  std::sort(ids.begin(), ids.end());
  CHECK(std::adjacent_find(ids.begin(), ids.end()) == ids.end());
}

}  // namespace ho
