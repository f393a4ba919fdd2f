#include "step/buckets.hpp"

#include <algorithm>

namespace paro {
namespace {

// A unit's place begins at a multiple: of 64 bytes also where elements have 2, as buffers begin.
constexpr uint64_t kPlaceElements = 32;

}  // namespace

std::vector<Bucket> buckets_of(const std::vector<UnitShape>& units, uint64_t elements) {
  std::vector<Bucket> buckets;
  uint64_t room = 0;  // in the last bucket
  for (auto u = static_cast<uint32_t>(units.size()); u-- > 0;) {
    const uint64_t trained = units[home_of(units, u)].trained;
    if (trained == 0) {
      continue;
    }
    if (units[u].shares) {
      buckets.push_back({u});
      room = 0;
      continue;
    }
    if (trained > room) {
      buckets.emplace_back();
      room = std::max(elements, trained);
    }
    buckets.back().push_back(u);
    room -= trained;
  }
  return buckets;
}

BucketOffsets offsets_of(const std::vector<Bucket>& buckets,
                         const std::vector<UnitLayout>& layouts) {
  BucketOffsets places;
  places.offsets.assign(layouts.size(), 0);
  for (const Bucket& bucket : buckets) {
    uint64_t next = 0;
    for (const uint32_t unit : bucket) {
      places.offsets[unit] = (next + kPlaceElements - 1) / kPlaceElements * kPlaceElements;
      next = places.offsets[unit] + layouts[unit].trained.padded_count();
    }
    if (bucket.size() > 1) {
      places.most_elements = std::max(places.most_elements, next);
    }
  }
  return places;
}

}  // namespace paro
