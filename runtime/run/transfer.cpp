#include "run/transfer.hpp"

#include <utility>

namespace paro {
namespace {

ho_dtype c_dtype(ho::DType dtype) {
  return static_cast<ho_dtype>(dtype);
}

bool is_16_bit(ho::DType dtype) {
  return dtype == ho::DType::kFloat16 || dtype == ho::DType::kBfloat16;
}

}  // namespace

Transfer::~Transfer() {
  static_cast<void>(finish());
}

ho_call_options Transfer::call_options(ho::DType dtype) const {
  ho_call_options options = HO_CALL_OPTIONS_INIT;
  options.algorithm = options_.algorithm;
  options.timeout_ms = options_.timeout_ms;
  options.fp32_sums = is_16_bit(dtype) ? 1 : 0;
  return options;
}

Transfer::Leg& Transfer::new_leg(const Route* route,
                                 std::span<const ElementView> targets,
                                 bool whole) {
  legs_.push_back(std::make_unique<Leg>());
  legs_.back()->route = route;
  legs_.back()->targets.assign(targets.begin(), targets.end());
  legs_.back()->whole = whole;
  return *legs_.back();
}

ho::Result<std::byte*> Transfer::room_for(Leg& leg, uint64_t bytes) {
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
  HORING_ASSIGN(leg.packed, room_for(leg, route.count * element));
  std::byte* next = leg.packed + (all_parts ? 0 : route.own_offset * element);
  for (const BufferRange& part : all_parts ? route.parts : route.own) {
    const uint64_t bytes = part.range.count() * element;
    ledger_.memory().copy(next, sources[part.buffer].at(part.range.begin), bytes);
    next += bytes;
  }
  return leg.packed;
}

void Transfer::unpack(const Leg& leg) {
  const Route& route = *leg.route;
  const uint64_t element = ho::size_bytes(leg.targets.front().dtype());
  const std::byte* next = leg.packed + (leg.whole ? 0 : route.own_offset * element);
  for (const BufferRange& part : leg.whole ? route.parts : route.own) {
    const uint64_t bytes = part.range.count() * element;
    ledger_.memory().copy(leg.targets[part.buffer].at(part.range.begin), next, bytes);
    next += bytes;
  }
}

ho::Status Transfer::gather(const std::vector<Route>& routes,
                            const ElementView& from,
                            const ElementView& to) {
  const uint64_t element = ho::size_bytes(to.dtype());
  for (const Route& route : routes) {
    Leg& leg = new_leg(&route, {&to, 1}, true);
    HORING_ASSIGN(std::byte* const all, in_order(leg, {&from, 1}, false));
    std::byte* const mine = all + route.own_offset * element;
    // A part that lies elsewhere is read from there: the library need not copy it first.
    const std::byte* source = mine;
    if (!route.packed && !route.own.empty()) {
      source = from.at(route.own.front().range.begin);
    }
    if (route.comm == nullptr) {
      if (source != mine && !route.own.empty()) {
        ledger_.memory().copy(mine, source, route.own.front().range.count() * element);
      }
      continue;
    }
    const ho_call_options options = call_options(ho::DType::kFloat32);
    HORING_TRY(checked(ho_all_gather_counts(route.comm,
                                            source,
                                            all,
                                            route.counts.data(),
                                            c_dtype(to.dtype()),
                                            &options,
                                            &leg.report,
                                            &leg.request)));
  }
  return {};
}

ho::Status Transfer::reduce_scatter(const std::vector<Route>& routes,
                                    std::span<const ElementView> places) {
  const ho::DType dtype = places.front().dtype();
  const uint64_t element = ho::size_bytes(dtype);
  const ho_call_options options = call_options(dtype);
  for (const Route& route : routes) {
    if (route.comm == nullptr) {
      continue;
    }
    Leg& leg = new_leg(&route, places, false);
    HORING_ASSIGN(std::byte* const all, in_order(leg, places, true));
    HORING_TRY(checked(ho_reduce_scatter_counts(route.comm,
                                                all,
                                                all + route.own_offset * element,
                                                route.counts.data(),
                                                c_dtype(dtype),
                                                HO_SUM,
                                                &options,
                                                &leg.report,
                                                &leg.request)));
  }
  return {};
}

ho::Status Transfer::all_reduce(const std::vector<Route>& routes,
                                std::span<const ElementView> places) {
  const ho::DType dtype = places.front().dtype();
  const ho_call_options options = call_options(dtype);
  for (const Route& route : routes) {
    if (route.comm == nullptr) {
      continue;
    }
    Leg& leg = new_leg(&route, places, true);
    // Every rank has all of it, so one buffer's elements may stay in their own order.
    std::byte* all = places.front().at(route.begin);
    if (route.merged) {
      HORING_ASSIGN(all, in_order(leg, places, true));
    }
    HORING_TRY(checked(ho_all_reduce(route.comm,
                                     all,
                                     all,
                                     route.count,
                                     c_dtype(dtype),
                                     HO_SUM,
                                     &options,
                                     &leg.report,
                                     &leg.request)));
  }
  return {};
}

ho::Status Transfer::all_reduce(ho_comm* comm, double* values, size_t count) {
  if (comm == nullptr) {
    return {};
  }
  const ho_call_options options = call_options(ho::DType::kFloat64);
  Leg& leg = new_leg(nullptr, {}, true);
  return checked(ho_all_reduce(
      comm, values, values, count, HO_FLOAT64, HO_SUM, &options, &leg.report, &leg.request));
}

bool Transfer::over() {
  for (const auto& leg : legs_) {
    int32_t done = 1;
    if (leg->request != nullptr && ho_request_test(leg->request, &done) == HO_OK && done == 0) {
      return false;
    }
  }
  return true;
}

void Transfer::end(Leg& leg, ho_status status) {
  leg.outcome = checked(status);
  leg.request = nullptr;
  sent_.intra += leg.report.intra_sent_bytes;
  sent_.inter += leg.report.inter_sent_bytes;
  took_ns_ += leg.report.total_ns;
}

bool Transfer::over_within(uint64_t timeout_ms) {
  for (const auto& leg : legs_) {
    if (leg->request != nullptr) {
      const ho_status status = ho_request_wait(leg->request, timeout_ms);
      if (status == HO_IN_PROGRESS) {
        return false;
      }
      end(*leg, status);
    }
  }
  return true;
}

ho::Status Transfer::finish() {
  ho::Status first;
  for (const auto& leg : legs_) {
    if (leg->request != nullptr) {
      end(*leg, ho_request_wait(leg->request, 0));
    }
    if (first.ok()) {
      first = leg->outcome;
    }
    if (first.ok() && leg->packed != nullptr) {
      unpack(*leg);
    }
  }
  legs_.clear();
  return first;
}

}  // namespace paro
