// Virtual time. Work is under way once what it comes after has run and its directions of the bus
// are free, in the order in which it was enqueued where several could be.
#include <algorithm>
#include <bit>
#include <cmath>

#include "machine.hpp"

namespace ho::cuda_double {

void Machine::set_price(Operation& operation, const std::vector<TouchedRange>& ranges) const {
  std::array<size_t, 2> over_bus{};
  size_t on_device = 0;
  for (const TouchedRange& range : ranges) {
    const auto region = regions.find(std::bit_cast<uintptr_t>(range.begin));
    if (region != nullptr && region->is_device()) {
      on_device = std::max(on_device, range.bytes);
    } else {
      over_bus.at(range.writes ? 1 : 0) += range.bytes;
    }
  }
  const double ns =
      std::max(static_cast<double>(std::max(over_bus[0], over_bus[1])) / config.rates.bus,
               static_cast<double>(on_device) / config.rates.device);
  operation.takes_ns = static_cast<int64_t>(std::llround(ns));
  operation.uses_bus = {over_bus[0] > 0, over_bus[1] > 0};
}

void Machine::start_timed(Lock& lock, int device) {
  std::array<bool, 2>& busy = bus_in_use_[device];
  for (size_t at = 0; at < pending.size(); ++at) {
    Operation& next = *pending[at];
    const std::array<bool, 2>& uses = next.uses_bus;
    if (next.device != device || next.ends_ns || (uses[0] && busy[0]) || (uses[1] && busy[1]) ||
        !is_ready(next)) {
      continue;
    }
    if (next.takes_ns == 0) {
      run(lock, OperationPtr(pending[at]));
      --at;  // it is gone; what comes after it may be ready, and comes later in the list
      continue;
    }
    next.ends_ns = now_ns + next.takes_ns;
    under_way_[{*next.ends_ns, next.number}] = pending[at];
    busy = {busy[0] || uses[0], busy[1] || uses[1]};
  }
}

OperationPtr Machine::next_to_end() const {
  return under_way_.empty() ? nullptr : under_way_.begin()->second;
}

void Machine::end_timed(Lock& lock, const OperationPtr& operation) {
  now_ns = *operation->ends_ns;
  under_way_.erase({now_ns, operation->number});
  std::array<bool, 2>& busy = bus_in_use_[operation->device];
  for (size_t direction = 0; direction < busy.size(); ++direction) {
    busy.at(direction) = busy.at(direction) && !operation->uses_bus.at(direction);
  }
  run(lock, operation);
  start_timed(lock, operation->device);
}

}  // namespace ho::cuda_double
