#include "layout/partition.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <string>

namespace paro {
namespace {

using ho::GlobalRank;
using ho::GroupIndex;
using ho::GroupRank;

// Cut number `index` of `parts` in a range of whole alignment blocks.
uint64_t cut(const Range& range, uint64_t index, uint64_t parts, uint64_t alignment) {
  const uint64_t blocks = range.count() / alignment;
  // blocks * index / parts without overflow.
  const uint64_t below = blocks / parts * index + blocks % parts * index / parts;
  return range.begin + below * alignment;
}

Range part_of(const Range& range, uint64_t index, uint64_t parts, uint64_t alignment) {
  return {cut(range, index, parts, alignment), cut(range, index + 1, parts, alignment)};
}

}  // namespace

ho::Result<Partition> Partition::make(const ho::GroupMap& groups,
                                      uint64_t element_count,
                                      uint64_t alignment,
                                      PartSizes sizes) {
  constexpr uint64_t kMaxElements = uint64_t{1} << 56U;
  const uint64_t shares = sizes == PartSizes::kEqual ? groups.world_size() : 1;
  if (alignment == 0 || alignment > kMaxElements / shares || element_count > kMaxElements) {
    return ho::invalid("a buffer of " + std::to_string(element_count) + " elements aligned to " +
                       std::to_string(alignment) +
                       " elements: takes an alignment of at least 1, and at most 2^56 of either");
  }
  if (sizes == PartSizes::kEqual && !groups.equal_groups()) {
    return ho::invalid("groups of " + groups.to_string() +
                       " ranks cannot have equal parts: take groups of one size");
  }
  Partition partition;
  partition.element_count_ = element_count;
  const uint64_t blocks = (element_count + alignment - 1) / alignment;
  partition.padded_count_ = (blocks + shares - 1) / shares * shares * alignment;
  if (partition.padded_count_ > 0) {
    partition.whole_.push_back({0, partition.padded_count_});
  }
  partition.group_part_.resize(groups.world_size());
  partition.world_parts_.resize(groups.world_size());
  partition.cut_groups(groups, alignment);
  partition.refine(groups, alignment);
  return partition;
}

void Partition::cut_groups(const ho::GroupMap& groups, uint64_t alignment) {
  const Range whole{0, padded_count_};
  for (uint32_t g = 0; g < groups.group_count(); ++g) {
    const auto& members = groups.members(GroupIndex(g));
    for (size_t l = 0; l < members.size(); ++l) {
      const Range part = part_of(whole, l, members.size(), alignment);
      if (part.count() > 0) {
        group_part_[members[l].at()].push_back(part);
      }
    }
  }
}

void Partition::refine(const ho::GroupMap& groups, uint64_t alignment) {
  std::set<uint64_t> cuts{0, padded_count_};
  for (const auto& parts : group_part_) {
    for (const Range& part : parts) {
      cuts.insert({part.begin, part.end});
    }
  }
  // By group: the group rank whose part the sweep is in.
  std::vector<uint32_t> at(groups.group_count(), 0);
  for (auto begin = cuts.begin(); std::next(begin) != cuts.end() && padded_count_ > 0; ++begin) {
    Segment segment{{*begin, *std::next(begin)}, {}, {}};
    for (uint32_t g = 0; g < groups.group_count(); ++g) {
      const auto& members = groups.members(GroupIndex(g));
      const auto inside = [&](GlobalRank rank) {
        const auto& parts = group_part_[rank.at()];
        return !parts.empty() && parts.front().end > segment.range.begin;
      };
      while (!inside(members[at[g]])) {
        ++at[g];
      }
      const GlobalRank owner = members[at[g]];
      const Range part = part_of(segment.range, g, groups.group_count(), alignment);
      segment.owners.push_back(owner);
      segment.parts.push_back(part);
      if (part.count() > 0) {
        world_parts_[owner.at()].push_back(part);
      }
    }
    segments_.push_back(std::move(segment));
  }
}

const std::vector<Range>& Partition::owned(Scope scope, GlobalRank rank) const {
  switch (scope) {
    case Scope::kReplicated:
      return whole_;
    case Scope::kGroup:
      return group_part_.at(rank.at());
    case Scope::kWorld:
      break;
  }
  return world_parts_.at(rank.at());
}

uint64_t Partition::owned_count(Scope scope, GlobalRank rank) const {
  uint64_t count = 0;
  for (const Range& range : owned(scope, rank)) {
    count += range.count();
  }
  return count;
}

ho::Result<std::vector<std::vector<GlobalRank>>> owner_sets(const ho::GroupMap& groups) {
  // Elements that every group can share out evenly: no cut is rounded, so none is missing. A buffer
  // that does not divide evenly has some of these segments and no other.
  constexpr uint64_t kMax = uint64_t{1} << 32U;
  uint64_t count = 1;
  for (uint32_t g = 0; g < groups.group_count(); ++g) {
    count = std::lcm(count, uint64_t{groups.group_size(GroupIndex(g))});
    if (count > kMax) {
      return ho::invalid("groups of " + groups.to_string() +
                         " ranks have too many different sizes to share states between them");
    }
  }
  HORING_ASSIGN(const Partition even, Partition::make(groups, count, 1));
  std::vector<std::vector<GlobalRank>> sets;
  for (const Segment& segment : even.segments()) {
    sets.push_back(segment.owners);
  }
  return sets;
}

}  // namespace paro
