// Measures the links that the plans of a communicator use, all links of one kind at once, since
// that is how a collective uses them.
//
// Round trips come first, on an idle job: in each round every rank has at most one partner. Rates
// follow: every rank streams to its successor (on its rail's ring, then inside its group) for a
// fixed time; the last message says that it is the last, and the receiver, who alone can tell what
// has arrived, sends its figure back.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "comm/communicator.hpp"

namespace ho {
namespace {

constexpr int kRoundTrips = 21;
constexpr size_t kStreamBytes = 64U << 10;
constexpr std::chrono::milliseconds kInterStream{400};
constexpr std::chrono::milliseconds kIntraStream{50};
// The first part of a stream may run faster than the link: queues and shapers take up a burst.
constexpr double kSkippedShare = 0.25;

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

  // Streams to `to` while receiving from `from`; the payload rate at which `to` received.
  [[nodiscard]] Result<double> stream(GlobalRank to,
                                      GlobalRank from,
                                      std::chrono::milliseconds duration) {
    Message out(kStreamBytes);
    Message in(kStreamBytes);
    const int64_t began = now_ns();
    const int64_t until = began + std::chrono::nanoseconds(duration).count();
    int64_t counted_from = 0;
    uint64_t counted_bytes = 0;
    int64_t last_arrival = began;
    bool sending = true;
    bool receiving = true;
    while (sending || receiving) {
      std::shared_ptr<Operation> send;
      std::shared_ptr<Operation> recv;
      if (sending) {
        sending = now_ns() < until;
        out.bytes[0] = std::byte{sending ? uint8_t{1} : uint8_t{0}};
        HORING_ASSIGN(send, begin(true, to, out.bytes));
      }
      if (receiving) {
        HORING_ASSIGN(recv, begin(false, from, in.bytes));
        HORING_TRY(communicator_.finish(recv));
        receiving = in.bytes[0] != std::byte{0};
        last_arrival = now_ns();
        const double share =
            static_cast<double>(last_arrival - began) / static_cast<double>(until - began);
        if (counted_from != 0) {
          counted_bytes += kStreamBytes;
        } else if (share >= kSkippedShare) {
          counted_from = last_arrival;
        }
      }
      HORING_TRY(communicator_.finish(send));
    }
    const double seconds = static_cast<double>(last_arrival - counted_from) / 1e9;
    double mine =
        counted_bytes > 0 && seconds > 0 ? static_cast<double>(counted_bytes) / seconds : 0;
    double theirs = 0;
    std::array<std::byte, sizeof(double)> figure{};
    std::array<std::byte, sizeof(double)> answer{};
    std::memcpy(figure.data(), &mine, sizeof(mine));
    HORING_ASSIGN(const auto send, begin(true, from, figure));
    HORING_TRY(transfer(false, to, answer));
    HORING_TRY(communicator_.finish(send));
    std::memcpy(&theirs, answer.data(), sizeof(theirs));
    return theirs;
  }

 private:
  Communicator& communicator_;
  CallOptions options_;
};

// Partners of one rank on one ring: of its rail between groups, or of its group.
struct RingPlace {
  uint32_t position;
  uint32_t size;
  GlobalRank next;
  GlobalRank previous;
};

// Round trips around a ring: even positions ask their successors, then odd ones; with an odd number
// of ranks the last one asks alone.
Result<double> ring_round_trip(LinkProbe& probe, const RingPlace& ring) {
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

}  // namespace

Status Communicator::measure_links() {
  LinkProbe probe(*this, settings_.timeout);
  const GroupMap& map = placement_.map;
  const GroupIndex group = map.group_of(self_);
  const uint32_t local = map.group_rank_of(self_).value();
  std::vector<LinkRate> rates;
  CallOptions options;
  HORING_TRY(barrier(options));

  const auto rail = map.rail_of(self_);
  const uint32_t groups = map.group_count();
  if (rail && groups > 1) {
    const RingPlace ring{group.value(),
                         groups,
                         map.rail_rank(map.group_ahead(group, 1), *rail),
                         map.rail_rank(map.group_behind(group, 1), *rail)};
    LinkRate rate{ring.next, rail, 0, 0};
    HORING_ASSIGN(rate.round_trip_ns, ring_round_trip(probe, ring));
    rates.push_back(rate);
  }
  HORING_TRY(barrier(options));
  if (rail && groups > 1) {
    const GlobalRank previous = map.rail_rank(map.group_behind(group, 1), *rail);
    HORING_ASSIGN(rates.back().bytes_per_second,
                  probe.stream(rates.back().peer, previous, kInterStream));
  }
  HORING_TRY(barrier(options));

  // Inside the group every pair is used; distance d pairs each rank with the ones d ahead and
  // behind.
  const uint32_t size = map.group_size(group);
  for (uint32_t distance = 1; distance < size; ++distance) {
    const GlobalRank next = map.rank_at(group, GroupRank((local + distance) % size));
    const GlobalRank previous = map.rank_at(group, GroupRank((local + size - distance) % size));
    LinkRate rate{next, std::nullopt, 0, 0};
    HORING_ASSIGN(rate.bytes_per_second, probe.stream(next, previous, kIntraStream));
    // One pair at a time, in the order of the asking rank.
    for (uint32_t asking = 0; asking < size; ++asking) {
      if (asking == local) {
        HORING_ASSIGN(rate.round_trip_ns, probe.round_trip(next));
      } else if ((asking + distance) % size == local) {
        HORING_TRY(probe.echo(previous));
      }
    }
    rates.push_back(rate);
  }
  HORING_TRY(barrier(options));
  link_rates_ = std::move(rates);
  return {};
}

}  // namespace ho
