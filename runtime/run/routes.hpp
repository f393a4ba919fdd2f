// How one flat buffer's elements lie in the messages of this rank's collectives.
#pragma once

#include <cstddef>
#include <vector>

#include "layout/partition.hpp"
#include "run/domains.hpp"
#include "step/step_plan.hpp"

namespace paro {

// One collective of a domain on one buffer.
struct Route {
  ho_comm* comm = nullptr;     // nullptr: this rank is alone in the set
  Range range;                 // the elements that the set shares
  std::vector<size_t> counts;  // by rank of the communicator: elements of its part
  // Parts in the order of the communicator's ranks. Where they do not follow one another in the
  // buffer (unequal groups, over the world) messages are packed in this order.
  std::vector<Range> parts;
  bool packed = false;
  std::vector<Range> own;   // this rank's parts
  uint64_t own_offset = 0;  // elements before them in that order
};

class Routes {
 public:
  Routes(const Partition& partition, const Domains& domains);
  // Those that this rank takes part in, none without elements.
  [[nodiscard]] const std::vector<Route>& of(Domain domain) const {
    return by_domain_[static_cast<size_t>(domain)];
  }

 private:
  [[nodiscard]] static Route through(const Partition& partition,
                                     const std::vector<ho::GlobalRank>& order,
                                     Scope scope,
                                     const Domains& domains);
  std::vector<Route> by_domain_[3];
};

}  // namespace paro
