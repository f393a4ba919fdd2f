// Virtual time. Work is under way once what it comes after has run and its directions of the bus
// are free, in the order in which it was enqueued where several could be.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>
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

namespace {

// Joint work is all of its parts.
void add_devices_of(const Operation& operation, std::set<int>& devices) {
  devices.insert(operation.device);
  if (operation.joint != nullptr) {
    for (const OperationPtr& each : operation.joint->enqueued) {
      devices.insert(each->device);
    }
  }
}

void set_end(Operation& operation, int64_t ends_ns) {
  operation.ends_ns = ends_ns;
  if (operation.joint != nullptr) {
    for (const OperationPtr& each : operation.joint->enqueued) {
      each->ends_ns = ends_ns;
    }
  }
}

}  // namespace

bool Machine::start_timed(Lock& lock, std::set<int> devices) {
  bool any_ran = false;
  while (!devices.empty()) {
    const int at = *devices.begin();
    std::array<bool, 2>& busy = bus_in_use_[at];
    const auto may_start = [&](const OperationPtr& each) {
      const std::array<bool, 2>& uses = each->uses_bus;
      return each->device == at && !each->ends_ns && each->not_before_ns <= now_ns &&
             !(uses[0] && busy[0]) && !(uses[1] && busy[1]) && is_ready(*each);
    };
    const auto found = std::ranges::find_if(pending, may_start);
    if (found == pending.end()) {
      devices.erase(at);
      continue;
    }
    const OperationPtr next = *found;
    add_devices_of(*next, devices);  // where others may begin after it
    if (next->takes_ns == 0) {
      run(lock, next);
      any_ran = true;
    } else {
      const int64_t ends_ns = now_ns + next->takes_ns;
      under_way_[{ends_ns, next->number}] = next;
      set_end(*next, ends_ns);
      busy = {busy[0] || next->uses_bus[0], busy[1] || next->uses_bus[1]};
    }
  }
  return any_ran;
}

void Machine::queue_timed(Lock& lock,
                          const OperationPtr& operation,
                          const std::vector<TouchedRange>& ranges) {
  if (operation->joint != nullptr) {
    operation->takes_ns = operation->joint->takes_ns;
  } else {
    set_price(*operation, ranges);
  }
  operation->not_before_ns = now_ns + host_ns[operation->device];
  if (operation->not_before_ns > now_ns) {
    queued_.emplace(operation->not_before_ns, operation->device);
  } else {
    static_cast<void>(start_timed(lock, {operation->device}));
  }
  changed_.notify_all();
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
  std::set<int> devices;
  if (!queued_.empty() && queued_.begin()->first <= now_ns) {
    devices.insert(queued_.begin()->second);
    queued_.erase(queued_.begin());
  } else {
    const OperationPtr operation = under_way_.begin()->second;
    under_way_.erase(under_way_.begin());
    std::array<bool, 2>& busy = bus_in_use_[operation->device];
    for (size_t direction = 0; direction < busy.size(); ++direction) {
      busy.at(direction) = busy.at(direction) && !operation->uses_bus.at(direction);
    }
    add_devices_of(*operation, devices);
    run(lock, operation);
  }
  const int device = *devices.begin();
  return start_timed(lock, devices) ? std::optional(device) : std::nullopt;
}

bool Machine::pass_event_if_any(Lock& lock) {
  if (running_ > 0 || !next_event_ns()) {
    return false;
  }
  static_cast<void>(pass_event(lock));
  return true;
}

void wait_by_queries(bool waits) {
  const Machine::Lock lock(machine().mutex);
  machine().thread().waits_by_queries = waits;
}

}  // namespace ho::cuda_double
