#include "step/buckets.hpp"

#include <algorithm>

namespace paro {
namespace {

// A unit's place begins at a multiple: of 64 bytes also where elements have 2, as buffers begin.
constexpr uint64_t kAlignElements = 32;

}  // namespace

std::vector<Bucket> buckets_of(const std::vector<UnitShape>& units, uint64_t elements) {
  std::vector<Bucket> buckets;
  uint64_t free_elements = 0;  // in the last bucket
  for (auto u = static_cast<uint32_t>(units.size()); u-- > 0;) {
    const uint64_t trained = units[home_of(units, u)].trained;
    if (trained == 0) {
      continue;
    }
    if (units[u].shares) {
      buckets.push_back({u});
      free_elements = 0;
      continue;
    }
    if (trained > free_elements) {
      buckets.emplace_back();
      free_elements = std::max(elements, trained);
    }
    buckets.back().push_back(u);
    free_elements -= trained;
  }
  return buckets;
}

BucketOffsets offsets_of(const std::vector<Bucket>& buckets,
                         const std::vector<UnitLayout>& layouts) {
  BucketOffsets bucket_offsets;
  bucket_offsets.offsets.assign(layouts.size(), 0);
  for (const Bucket& bucket : buckets) {
    uint64_t next = 0;
    for (const uint32_t unit : bucket) {
      bucket_offsets.offsets[unit] = (next + kAlignElements - 1) / kAlignElements * kAlignElements;
      next = bucket_offsets.offsets[unit] + layouts[unit].trained.padded_count();
    }
    if (bucket.size() > 1) {
      bucket_offsets.most_elements = std::max(bucket_offsets.most_elements, next);
    }
  }
  return bucket_offsets;
}

}  // namespace paro
