// How the elements of flat buffers lie in the messages of this rank's collectives: of one unit's,
// or of a bucket's, whose units share messages.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "collectives/domains.hpp"
#include "layout/partition.hpp"
#include "step/step_plan.hpp"

namespace paro {

// Elements of one of the buffers.
struct BufferRange {
  size_t buffer = 0;
  Range range;
};

// One collective of a domain.
struct Route {
  CollectivesByTrack over{};   // nullptr: this rank is alone in the set
  bool merged = false;         // on several buffers
  uint64_t begin = 0;          // of the elements that the set shares, where they are of one buffer
  uint64_t count = 0;          // of those elements
  std::vector<size_t> counts;  // by rank of the set: elements of its part
  // Parts in the order of the set's ranks, those of one rank by buffer. Where they do not
  // follow one another in one buffer (several buffers; unequal groups, over the world) messages are
  // packed in this order.
  std::vector<BufferRange> parts;
  bool packed = false;
  std::vector<BufferRange> own;  // this rank's parts
  uint64_t own_offset = 0;       // elements before them in that order
};

class Routes {
 public:
  Routes(const Partition& partition, const Domains& domains);
  // Of several buffers, each with elements; messages hold what a rank has of all of them together.
  Routes(std::span<const Partition* const> partitions, const Domains& domains);
  // Those that this rank takes part in, none without elements.
  [[nodiscard]] const std::vector<Route>& of(Domain domain) const {
    return by_domain_[static_cast<size_t>(domain)];
  }

 private:
  std::array<std::vector<Route>, 3> by_domain_;
};

}  // namespace paro
