// Who owns which elements of a flat buffer, at each scope. Pure.
//
// Scope N: every rank owns all elements. Scope I: each group cuts the buffer over its ranks, in the
// order of their group ranks. Scope G: all ranks own disjoint parts, and a rank's G part lies
// inside its I part. So data between the two scopes moves only between the owners of the same
// elements in other groups.
//
// Groups of unequal size cut the buffer at different places. All these cuts together (the common
// refinement) make segments, each of which has exactly one owner in every group; those g owners
// share the segment's G parts evenly. With g equal groups of m ranks there are m segments, and rank
// (group k, group rank l) owns part k of segment l: G part number l g + k. (Not k m + l: that would
// tear a group's I part over all groups.)
//
// Cuts fall on multiples of the alignment; the buffer's end is padded to one. Where elements do not
// divide evenly, parts differ by one alignment block, and may be empty; or, for collectives that
// want equal parts, the padding is so long that none differs.
#pragma once

#include <cstdint>
#include <vector>

#include "base/index.hpp"
#include "base/status.hpp"
#include "group/group_map.hpp"
#include "strategy/strategy.hpp"

namespace paro {

// Elements begin .. end - 1 of a flat buffer.
struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
  [[nodiscard]] uint64_t count() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

// Elements with the same owner in every group.
struct Segment {
  Range range;
  std::vector<ho::GlobalRank> owners;  // by group
  std::vector<Range> parts;            // by group: the owner's G part
};

// How much parts of equal groups may differ: by a block, or not at all.
enum class PartSizes : uint8_t { kAny, kEqual };

class Partition {
 public:
  // `alignment` in elements, at least 1. Equal parts are refused of groups of unequal size.
  [[nodiscard]] static ho::Result<Partition> make(const ho::GroupMap& groups,
                                                  uint64_t element_count,
                                                  uint64_t alignment,
                                                  PartSizes sizes = PartSizes::kAny);

  [[nodiscard]] uint64_t element_count() const { return element_count_; }
  // With the padding at the end.
  [[nodiscard]] uint64_t padded_count() const { return padded_count_; }
  [[nodiscard]] const std::vector<Segment>& segments() const { return segments_; }
  // What `rank` owns, in ascending order, without empty ranges: one range at most for scopes N and
  // I; for G one per segment that the rank owns (one with equal groups).
  [[nodiscard]] const std::vector<Range>& owned(Scope scope, ho::GlobalRank rank) const;
  // Elements of those ranges, padding included.
  [[nodiscard]] uint64_t owned_count(Scope scope, ho::GlobalRank rank) const;

 private:
  Partition() = default;
  void cut_groups(const ho::GroupMap& groups, uint64_t alignment);
  void refine(const ho::GroupMap& groups, uint64_t alignment);

  uint64_t element_count_ = 0;
  uint64_t padded_count_ = 0;
  std::vector<Range> whole_;                     // scope N
  std::vector<std::vector<Range>> group_part_;   // scope I, by rank
  std::vector<std::vector<Range>> world_parts_;  // scope G, by rank
  std::vector<Segment> segments_;
};

// Every set of ranks, one of each group, that may own a segment of some buffer. Fails where groups
// of very many different sizes make too many.
[[nodiscard]] ho::Result<std::vector<std::vector<ho::GlobalRank>>> owner_sets(
    const ho::GroupMap& groups);

}  // namespace paro
