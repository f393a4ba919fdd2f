// Virtual time. Work is under way once what it comes after has run and its directions of the bus
// are free, in the order in which it was enqueued where several could be.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <string_view>

#include "machine.hpp"

namespace ho::cuda_double {

void Machine::set_price(Operation& operation, const std::vector<TouchedRange>& ranges) const {
  std::array<size_t, 2> over_bus{};
  std::map<uint32_t, size_t> on_device;  // by item
  for (const TouchedRange& range : ranges) {
    const auto region = regions.find(std::bit_cast<uintptr_t>(range.begin));
    if (region != nullptr && region->is_device()) {
      size_t& largest = on_device[range.item];
      largest = std::max(largest, range.bytes);
    } else {
      over_bus.at(range.writes ? 1 : 0) += range.bytes;
    }
  }
  size_t all_on_device = 0;
  for (const auto& [item, bytes] : on_device) {
    all_on_device += bytes;
  }
  const double ns =
      std::max(static_cast<double>(std::max(over_bus[0], over_bus[1])) / config.rates.bus,
               static_cast<double>(all_on_device) / config.rates.device);
  operation.takes_ns = static_cast<int64_t>(std::llround(ns));
  operation.uses_bus = {over_bus[0] > 0, over_bus[1] > 0};
}

void Machine::spend_host_time(std::string_view call) {
  const ContextState* const context = current();
  if (context == nullptr) {
    return;
  }
  const HostTimes& times = config.host_times;
  int64_t& spent = host_ns[context->device];
  if (call == "launch" || call == "copy_async") {
    spent += times.start_ns;
  } else if (call == "event_record") {
    spent += times.record_ns;
  } else if (call == "event_query") {
    spent += times.query_ns;
  }
}

bool Machine::start_timed(Lock& lock, int device) {
  std::array<bool, 2>& busy = bus_in_use_[device];
  bool any_ran = false;
  for (size_t at = 0; at < pending.size(); ++at) {
    Operation& next = *pending[at];
    const std::array<bool, 2>& uses = next.uses_bus;
    if (next.device != device || next.ends_ns || next.not_before_ns > now_ns ||
        (uses[0] && busy[0]) || (uses[1] && busy[1]) || !is_ready(next)) {
      continue;
    }
    if (next.takes_ns == 0) {
      run(lock, OperationPtr(pending[at]));
      any_ran = true;
      --at;  // it is gone; what comes after it may be ready, and comes later in the list
      continue;
    }
    next.ends_ns = now_ns + next.takes_ns;
    under_way_[{*next.ends_ns, next.number}] = pending[at];
    busy = {busy[0] || uses[0], busy[1] || uses[1]};
  }
  return any_ran;
}

std::optional<int64_t> Machine::next_event_ns() const {
  std::optional<int64_t> next;
  if (!under_way_.empty()) {
    next = under_way_.begin()->first.first;
  }
  if (!queued_.empty()) {
    next = std::min(next.value_or(INT64_MAX), queued_.begin()->first);
  }
  return next;
}

std::optional<int> Machine::pass_event(Lock& lock) {
  now_ns = std::max(now_ns, *next_event_ns());
  int device = 0;
  if (!queued_.empty() && queued_.begin()->first <= now_ns) {
    device = queued_.begin()->second;
    queued_.erase(queued_.begin());
  } else {
    const OperationPtr operation = under_way_.begin()->second;
    device = operation->device;
    under_way_.erase(under_way_.begin());
    std::array<bool, 2>& busy = bus_in_use_[device];
    for (size_t direction = 0; direction < busy.size(); ++direction) {
      busy.at(direction) = busy.at(direction) && !operation->uses_bus.at(direction);
    }
    run(lock, operation);
  }
  return start_timed(lock, device) ? std::optional(device) : std::nullopt;
}

}  // namespace ho::cuda_double
