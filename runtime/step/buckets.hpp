// Which units' gradients are reduced together, by one collective. Pure.
//
// A collective takes its latency however little it moves. Small units that follow one another in
// backward's order share one: a bucket.
#pragma once

#include <cstdint>
#include <vector>

#include "layout/unit_layout.hpp"

namespace paro {

inline constexpr uint64_t kDefaultBucketBytes = uint64_t{1} << 20U;

// Units in backward's order, the last unit first.
using Bucket = std::vector<uint32_t>;

// Each unit that has trained parameters is in one bucket. Neighbours share it as long as they have
// at most `elements` trained ones together, so that a unit of as many is alone; 0: all are alone. A
// unit that shares another's parameters is alone.
[[nodiscard]] std::vector<Bucket> buckets_of(const std::vector<UnitShape>& units,
                                             uint64_t elements);

// Where gradients lie that a backward pass leaves for the reduction of a bucket.
struct BucketOffsets {
  std::vector<uint64_t> offsets;  // by unit, elements; 0 where a unit is alone
  uint64_t most_elements = 0;     // of a bucket of several units; 0: there is none
};
[[nodiscard]] BucketOffsets offsets_of(const std::vector<Bucket>& buckets,
                                       const std::vector<UnitLayout>& layouts);

}  // namespace paro
