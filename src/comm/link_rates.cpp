#include "comm/link_rates.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>

#include "base/bytes.hpp"
#include "comm/link_probe.hpp"

namespace ho {
namespace {

constexpr int kRoundTrips = 21;
constexpr size_t kProbeBytes = 64U << 10;
constexpr std::chrono::milliseconds kInterProbe{400};
constexpr std::chrono::milliseconds kIntraProbe{25};
constexpr uint32_t kIntraRounds = 5;

struct Message {
  std::vector<std::byte> bytes;
  explicit Message(size_t size) : bytes(size) {}
};

class LinkProbe {
 public:
  LinkProbe(Communicator& communicator, std::chrono::milliseconds timeout)
      : communicator_(communicator) {
    options_.timeout = timeout;
  }

  [[nodiscard]] Result<std::shared_ptr<Operation>> begin(bool sends,
                                                         GlobalRank peer,
                                                         std::span<std::byte> data) {
    PointToPointCall call;
    call.sends = sends;
    call.data = data.data();
    call.into = data.data();
    call.count = data.size();
    call.peer = peer;
    call.options = options_;
    return communicator_.start(call, true);
  }

  [[nodiscard]] Status transfer(bool sends, GlobalRank peer, std::span<std::byte> data) {
    HORING_ASSIGN(const auto operation, begin(sends, peer, data));
    return communicator_.finish(operation);
  }

  // Median of 8-byte round trips, in nanoseconds; the other side calls echo().
  [[nodiscard]] Result<double> round_trip(GlobalRank peer) {
    std::array<std::byte, 8> token{};
    std::vector<double> times;
    for (int i = 0; i < kRoundTrips; ++i) {
      const int64_t began = now_ns();
      HORING_TRY(transfer(true, peer, token));
      HORING_TRY(transfer(false, peer, token));
      times.push_back(static_cast<double>(now_ns() - began));
    }
    std::nth_element(times.begin(), times.begin() + kRoundTrips / 2, times.end());
    return times[kRoundTrips / 2];
  }

  [[nodiscard]] Status echo(GlobalRank peer) {
    std::array<std::byte, 8> token{};
    for (int i = 0; i < kRoundTrips; ++i) {
      HORING_TRY(transfer(false, peer, token));
      HORING_TRY(transfer(true, peer, token));
    }
    return {};
  }

  // Sends to `to` while receiving from `from`; the payload rate at which `to` received.
  [[nodiscard]] Result<double> measure(GlobalRank to, GlobalRank from, const ProbeLength& length) {
    Message out(kProbeBytes);
    Message in(kProbeBytes);
    std::vector<std::chrono::nanoseconds> arrivals;
    const int64_t began = now_ns();
    const auto elapsed = [began] { return std::chrono::nanoseconds(now_ns() - began); };
    bool sending = true;
    bool receiving = true;
    for (uint64_t sent = 0; sending || receiving; ++sent) {
      std::shared_ptr<Operation> send;
      if (sending) {
        sending = !ends_probe(sent, elapsed(), length);
        out.bytes[0] = std::byte{sending ? uint8_t{1} : uint8_t{0}};
        HORING_ASSIGN(send, begin(true, to, out.bytes));
      }
      if (receiving) {
        HORING_TRY(transfer(false, from, in.bytes));
        receiving = in.bytes[0] != std::byte{0};
        arrivals.push_back(elapsed());
      }
      HORING_TRY(communicator_.finish(send));
    }
    return swap_figures(to, from, probe_rate(arrivals, kProbeBytes));
  }

 private:
  // Sends `from` the rate at which it was received; returns what `to` measured of this rank.
  [[nodiscard]] Result<double> swap_figures(GlobalRank to, GlobalRank from, double received) {
    std::array<std::byte, sizeof(double)> figure{};
    std::array<std::byte, sizeof(double)> answer{};
    store_le(figure, 0, std::bit_cast<uint64_t>(received));
    HORING_ASSIGN(const auto send, begin(true, from, figure));
    HORING_TRY(transfer(false, to, answer));
    HORING_TRY(communicator_.finish(send));
    return std::bit_cast<double>(load_le<uint64_t>(answer, 0));
  }

  Communicator& communicator_;
  CallOptions options_;
};

// Partners of one rank on one ring: of its rail between groups, or of its group.
struct RingPosition {
  uint32_t position;
  uint32_t size;
  GlobalRank next;
  GlobalRank previous;
};

// Round trips around a ring: even positions start with their successors, then odd ones; with an odd
// number of ranks the last one is alone.
Result<double> ring_round_trip(LinkProbe& probe, const RingPosition& ring) {
  double result = 0;
  const bool odd_ring = ring.size % 2 == 1;
  const auto asks_in = [&](uint32_t position) {
    return odd_ring && position == ring.size - 1 ? 2U : position % 2;
  };
  for (uint32_t round = 0; round < 3; ++round) {
    if (asks_in(ring.position) == round) {
      HORING_ASSIGN(result, probe.round_trip(ring.next));
    } else if (asks_in((ring.position + ring.size - 1) % ring.size) == round) {
      HORING_TRY(probe.echo(ring.previous));
    }
  }
  return result;
}

// Inside the group every pair is used; distance d pairs each rank with the ones d ahead and behind.
Status measure_inside_group(LinkProbe& probe,
                            const Communicator& communicator,
                            std::chrono::milliseconds timeout,
                            std::vector<LinkRate>& rates) {
  const GroupMap& map = communicator.map();
  const GroupIndex group = map.group_of(communicator.rank());
  const uint32_t local = map.group_rank_of(communicator.rank()).value();
  const uint32_t size = map.group_size(group);
  const ProbeLength length = probe_length(kIntraProbe, kIntraRounds * (size - 1), timeout);
  for (uint32_t distance = 1; distance < size; ++distance) {
    const GlobalRank next = map.rank_at(group, GroupRank((local + distance) % size));
    const GlobalRank previous = map.rank_at(group, GroupRank((local + size - distance) % size));
    LinkRate rate{next, std::nullopt, 0, 0};
    for (uint32_t round = 0; round < kIntraRounds; ++round) {
      HORING_ASSIGN(const double once, probe.measure(next, previous, length));
      rate.bytes_per_second = std::max(rate.bytes_per_second, once);
    }
    // One pair at a time, in the order of the rank that starts.
    for (uint32_t asking = 0; asking < size; ++asking) {
      if (asking == local) {
        HORING_ASSIGN(rate.round_trip_ns, probe.round_trip(next));
      } else if ((asking + distance) % size == local) {
        HORING_TRY(probe.echo(previous));
      }
    }
    rates.push_back(rate);
  }
  return {};
}

}  // namespace

Result<std::vector<LinkRate>> measure_links(Communicator& communicator) {
  const std::chrono::milliseconds timeout = communicator.settings().timeout;
  LinkProbe probe(communicator, timeout);
  const GroupMap& map = communicator.map();
  const GlobalRank self = communicator.rank();
  const GroupIndex group = map.group_of(self);
  std::vector<LinkRate> rates;
  CallOptions options;
  HORING_TRY(communicator.barrier(options));

  const auto rail = map.rail_of(self);
  const uint32_t groups = map.group_count();
  if (rail && groups > 1) {
    const RingPosition ring{group.value(),
                            groups,
                            map.rail_rank(map.group_ahead(group, 1), *rail),
                            map.rail_rank(map.group_behind(group, 1), *rail)};
    LinkRate rate{ring.next, rail, 0, 0};
    HORING_ASSIGN(rate.round_trip_ns, ring_round_trip(probe, ring));
    rates.push_back(rate);
  }
  HORING_TRY(communicator.barrier(options));
  if (rail && groups > 1) {
    const GlobalRank previous = map.rail_rank(map.group_behind(group, 1), *rail);
    HORING_ASSIGN(
        rates.back().bytes_per_second,
        probe.measure(rates.back().peer, previous, probe_length(kInterProbe, 1, timeout)));
  }
  HORING_TRY(communicator.barrier(options));

  HORING_TRY(measure_inside_group(probe, communicator, timeout, rates));
  HORING_TRY(communicator.barrier(options));
  return rates;
}

}  // namespace ho
