#include "layout/partition.hpp"

#include <algorithm>

#include "catch.hpp"

using ho::GlobalRank;
using ho::GroupIndex;
using ho::GroupMap;
using ho::GroupRank;
using paro::Partition;
using paro::PartSizes;
using paro::Range;
using paro::Scope;

namespace {

GroupMap shape(const char* text) {
  return GroupMap::parse(text).value();
}

const std::vector<const char*> kShapes{
    "1x1", "1x4", "4x1", "2x2", "2x4", "4x2", "3x3", "1+3", "1+1+2", "7+8", "3+5+1", "4x4"};

// Whether the ranges of `ranks` cover 0 .. end exactly once.
bool cover_once(const Partition& partition, Scope scope, const std::vector<GlobalRank>& ranks) {
  std::vector<Range> all;
  for (const GlobalRank rank : ranks) {
    const auto& owned = partition.owned(scope, rank);
    all.insert(all.end(), owned.begin(), owned.end());
  }
  std::sort(
      all.begin(), all.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  uint64_t next = 0;
  for (const Range& range : all) {
    if (range.begin != next || range.end <= range.begin) {
      return false;
    }
    next = range.end;
  }
  return next == partition.padded_count();
}

bool inside(const Range& inner, const std::vector<Range>& outer) {
  return std::any_of(outer.begin(), outer.end(), [&](const Range& range) {
    return range.begin <= inner.begin && inner.end <= range.end;
  });
}

std::vector<GlobalRank> everybody(const GroupMap& groups) {
  std::vector<GlobalRank> ranks;
  for (uint32_t r = 0; r < groups.world_size(); ++r) {
    ranks.push_back(GlobalRank(r));
  }
  return ranks;
}

void check_partition(const GroupMap& groups, uint64_t elements, uint64_t alignment) {
  INFO(groups.to_string() << ", " << elements << " elements, alignment " << alignment);
  const auto made = Partition::make(groups, elements, alignment);
  REQUIRE(made.ok());
  const Partition& partition = *made;
  CHECK(partition.padded_count() >= elements);
  CHECK(partition.padded_count() < elements + alignment);
  CHECK(partition.padded_count() % alignment == 0);
  CHECK(cover_once(partition, Scope::kWorld, everybody(groups)));
  for (uint32_t g = 0; g < groups.group_count(); ++g) {
    CHECK(cover_once(partition, Scope::kGroup, groups.members(GroupIndex(g))));
  }
  for (const GlobalRank rank : everybody(groups)) {
    CHECK(partition.owned_count(Scope::kReplicated, rank) == partition.padded_count());
    for (const Range& range : partition.owned(Scope::kWorld, rank)) {
      CHECK(range.begin % alignment == 0);
      CHECK(inside(range, partition.owned(Scope::kGroup, rank)));
    }
  }
  for (const auto& segment : partition.segments()) {
    REQUIRE(segment.owners.size() == groups.group_count());
    for (uint32_t g = 0; g < groups.group_count(); ++g) {
      CHECK(groups.group_of(segment.owners[g]) == GroupIndex(g));
      CHECK(inside(segment.range, partition.owned(Scope::kGroup, segment.owners[g])));
      CHECK(inside(segment.parts[g], {segment.range}));
    }
  }
}

}  // namespace

TEST_CASE("every scope covers every element as often as it should") {
  for (const char* text : kShapes) {
    for (const uint64_t elements :
         std::initializer_list<uint64_t>{0, 1, 2, 7, 13, 64, 97, 1000, 4099}) {
      for (const uint64_t alignment : std::initializer_list<uint64_t>{1, 4, 8}) {
        check_partition(shape(text), elements, alignment);
      }
    }
  }
}

TEST_CASE("ranks placed in turn over the groups are no different") {
  for (const uint64_t elements : std::initializer_list<uint64_t>{1, 97, 1000}) {
    const auto labels = GroupMap::from_labels({"a", "b", "a", "c", "b", "a", "c", "c"});
    REQUIRE(labels.ok());
    check_partition(*labels, elements, 4);
  }
}

TEST_CASE("with equal groups rank (k, l) owns world part l g + k") {
  for (const char* text : {"2x2", "2x4", "4x2", "3x3"}) {
    const GroupMap groups = shape(text);
    const uint32_t g = groups.group_count();
    const uint32_t m = groups.group_size(GroupIndex(0));
    const uint64_t part = 8;
    const auto partition = Partition::make(groups, part * g * m, 1);
    REQUIRE(partition.ok());
    REQUIRE(partition->segments().size() == m);
    for (uint32_t k = 0; k < g; ++k) {
      for (uint32_t l = 0; l < m; ++l) {
        const GlobalRank rank = groups.rank_at(GroupIndex(k), GroupRank(l));
        const uint64_t begin = part * (l * g + k);
        CHECK(partition->owned(Scope::kWorld, rank) == std::vector<Range>{{begin, begin + part}});
        CHECK(partition->owned(Scope::kGroup, rank) ==
              std::vector<Range>{{part * l * g, part * (l + 1) * g}});
      }
    }
  }
}

TEST_CASE("unequal groups meet in the common refinement") {
  // Rank 0 to 2 are a group, rank 3 is one.
  const auto partition = Partition::make(shape("3+1"), 60, 1);
  REQUIRE(partition.ok());
  REQUIRE(partition->segments().size() == 3);
  CHECK(partition->segments()[1].range == Range{20, 40});
  CHECK(partition->segments()[1].owners == std::vector{GlobalRank(1), GlobalRank(3)});
  CHECK(partition->owned(Scope::kWorld, GlobalRank(1)) == std::vector<Range>{{20, 30}});
  CHECK(partition->owned(Scope::kWorld, GlobalRank(3)) ==
        std::vector<Range>{{10, 20}, {30, 40}, {50, 60}});
  CHECK(partition->owned_count(Scope::kGroup, GlobalRank(3)) == 60);
}

TEST_CASE("parts differ by a block at most with equal groups") {
  for (const uint64_t elements : std::initializer_list<uint64_t>{1, 31, 33, 1000}) {
    const auto partition = Partition::make(shape("1x8"), elements, 4);
    REQUIRE(partition.ok());
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;
    for (uint32_t r = 0; r < 8; ++r) {
      const uint64_t count = partition->owned_count(Scope::kGroup, GlobalRank(r));
      least = std::min(least, count);
      most = std::max(most, count);
    }
    CHECK(most - least <= 4);
  }
}

TEST_CASE("sizes that cannot be are refused") {
  CHECK_FALSE(Partition::make(shape("2x2"), 10, 0).ok());
  CHECK_FALSE(Partition::make(shape("2x2"), UINT64_MAX, 8).ok());
}

TEST_CASE("equal parts are equal at every scope, whatever does not divide evenly is padding") {
  for (const char* text : {"1x1", "2x2", "4x1", "1x4", "3x2"}) {
    const GroupMap groups = shape(text);
    for (const uint64_t elements : {0U, 1U, 7U, 48U, 1001U}) {
      INFO(text << ", " << elements << " elements");
      const auto made = Partition::make(groups, elements, 4, PartSizes::kEqual);
      REQUIRE(made.ok());
      const uint64_t world = groups.world_size();
      CHECK(made->padded_count() >= elements);
      CHECK(made->padded_count() < elements + 4 * world);
      for (uint32_t rank = 0; rank < world; ++rank) {
        const GlobalRank self(rank);
        CHECK(made->owned_count(Scope::kWorld, self) * world == made->padded_count());
        CHECK(made->owned_count(Scope::kGroup, self) * groups.group_size(GroupIndex(0)) ==
              made->padded_count());
      }
    }
  }
  CHECK_FALSE(Partition::make(shape("3+1"), 60, 1, PartSizes::kEqual).ok());
  CHECK_FALSE(Partition::make(shape("2x2"), 60, uint64_t{1} << 55U, PartSizes::kEqual).ok());
}
