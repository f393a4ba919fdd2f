#include "run/transfer.hpp"

#include <utility>

namespace paro {
Transfer::~Transfer() {
  static_cast<void>(finish());
}

Transfer::Leg& Transfer::new_leg(const Route& route,
                                 std::span<const ElementView> targets,
                                 bool whole) {
  legs_.push_back(std::make_unique<Leg>());
  legs_.back()->route = &route;
  legs_.back()->over = route.over[track_];
  legs_.back()->targets.assign(targets.begin(), targets.end());
  legs_.back()->whole = whole;
  return *legs_.back();
}

ho::Result<std::byte*> Transfer::memory_for(Leg& leg, uint64_t bytes) {
  if (leg.route->merged) {
    return std::exchange(pack_, pack_ + bytes);
  }
  HORING_ASSIGN(leg.reordered, ledger_.allocate(Purpose::kScratch, bytes));
  return leg.reordered.get();
}

ho::Result<std::byte*> Transfer::in_order(Leg& leg,
                                          std::span<const ElementView> sources,
                                          bool all_parts) {
  const Route& route = *leg.route;
  if (!route.packed) {
    return leg.targets.front().at(route.begin);
  }
  const uint64_t element = ho::size_bytes(sources.front().dtype());
  HORING_ASSIGN(leg.packed, memory_for(leg, route.count * element));
  std::byte* next = leg.packed + (all_parts ? 0 : route.own_offset * element);
  for (const BufferRange& part : all_parts ? route.parts : route.own) {
    const uint64_t bytes = part.range.count() * element;
    operations_.copy(next, sources[part.buffer].at(part.range.begin), bytes);
    next += bytes;
  }
  return leg.packed;
}

void Transfer::unpack(Leg& leg) {
  if (leg.packed == nullptr) {
    return;
  }
  const Route& route = *leg.route;
  const uint64_t element = ho::size_bytes(leg.targets.front().dtype());
  const std::byte* next = leg.packed + (leg.whole ? 0 : route.own_offset * element);
  for (const BufferRange& part : leg.whole ? route.parts : route.own) {
    const uint64_t bytes = part.range.count() * element;
    operations_.copy(leg.targets[part.buffer].at(part.range.begin), next, bytes);
    next += bytes;
  }
  leg.packed = nullptr;
}

ho::Status Transfer::gather(const std::vector<Route>& routes,
                            const ElementView& from,
                            const ElementView& to) {
  const uint64_t element = ho::size_bytes(to.dtype());
  for (const Route& route : routes) {
    Leg& leg = new_leg(route, {&to, 1}, true);
    HORING_ASSIGN(std::byte* const all, in_order(leg, {&from, 1}, false));
    std::byte* const mine = all + route.own_offset * element;
    // A part that lies elsewhere is read from there: the library need not copy it first.
    const std::byte* source = mine;
    if (!route.packed && !route.own.empty()) {
      source = from.at(route.own.front().range.begin);
    }
    if (route.over[track_] == nullptr) {
      if (source != mine && !route.own.empty()) {
        operations_.copy(mine, source, route.own.front().range.count() * element);
      }
      continue;
    }
    HORING_TRY(route.over[track_]->begin_all_gather(
        options_, to.dtype(), source, all, route.counts, leg.pending));
  }
  return {};
}

ho::Status Transfer::reduce_scatter(const std::vector<Route>& routes,
                                    std::span<const ElementView> buffers_of_units) {
  const ho::DType dtype = buffers_of_units.front().dtype();
  const uint64_t element = ho::size_bytes(dtype);
  for (const Route& route : routes) {
    if (route.over[track_] == nullptr) {
      continue;
    }
    Leg& leg = new_leg(route, buffers_of_units, false);
    HORING_ASSIGN(std::byte* const all, in_order(leg, buffers_of_units, true));
    HORING_TRY(route.over[track_]->begin_reduce_scatter(
        options_, dtype, all, all + route.own_offset * element, route.counts, leg.pending));
  }
  return {};
}

ho::Status Transfer::all_reduce(const std::vector<Route>& routes,
                                std::span<const ElementView> buffers_of_units) {
  const ho::DType dtype = buffers_of_units.front().dtype();
  for (const Route& route : routes) {
    if (route.over[track_] == nullptr) {
      continue;
    }
    Leg& leg = new_leg(route, buffers_of_units, true);
    // Every rank has all of it, so one buffer's elements may stay in their own order.
    std::byte* all = buffers_of_units.front().at(route.begin);
    if (route.merged) {
      HORING_ASSIGN(all, in_order(leg, buffers_of_units, true));
    }
    HORING_TRY(
        route.over[track_]->begin_all_reduce(options_, dtype, all, route.count, leg.pending));
  }
  return {};
}

ho::Status Transfer::all_reduce(Collectives* over, double* values, size_t count) {
  if (over == nullptr) {
    return {};
  }
  Leg& leg = *legs_.emplace_back(std::make_unique<Leg>());
  leg.over = over;
  return over->begin_all_reduce(options_, ho::DType::kFloat64, values, count, leg.pending);
}

void Transfer::follow() {
  for (const auto& leg : legs_) {
    unpack(*leg);
  }
}

bool Transfer::over() {
  for (const auto& leg : legs_) {
    if (leg->pending.request != nullptr && !leg->over->over(leg->pending)) {
      return false;
    }
  }
  return true;
}

bool Transfer::end_within(Leg& leg, uint64_t timeout_ms) {
  if (leg.pending.request == nullptr) {
    return true;
  }
  const ho::Result<bool> joined = leg.over->join(leg.pending, timeout_ms);
  if (joined.ok() && !*joined) {
    return false;
  }
  leg.outcome = joined.status();
  sent_.intra += leg.pending.report.intra_sent_bytes;
  sent_.inter += leg.pending.report.inter_sent_bytes;
  took_ns_ += leg.pending.report.total_ns;
  return true;
}

bool Transfer::over_within(uint64_t timeout_ms) {
  for (const auto& leg : legs_) {
    if (!end_within(*leg, timeout_ms)) {
      return false;
    }
  }
  return true;
}

ho::Status Transfer::finish() {
  ho::Status first;
  for (const auto& leg : legs_) {
    static_cast<void>(end_within(*leg, 0));
    if (first.ok()) {
      first = leg->outcome;
    }
    if (first.ok()) {
      unpack(*leg);
    }
  }
  legs_.clear();
  return first;
}

}  // namespace paro
