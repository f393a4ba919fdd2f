#include "transport/tcp/rail_rate.hpp"

#include <algorithm>
#include <iterator>

#include "transport/tcp/striping.hpp"

namespace ho::tcp {
namespace {

// A sample that counts: the kernel had something to send for most of it.
constexpr double kBusyPart = 0.8;
// Of a connection that is not busy all the time: enough that round trips do not matter.
constexpr uint64_t kSharedBytes = 256 << 10;

// Of the time that data takes, the way itself has an eighth at most where round trips are so many
// times as long as the shortest one, and where a rail that is well would need so long for the data
// that is on its way. Less may take so long for another reason: a busy processor, or the peer's
// kernel, which acknowledges a message of 64 KiB or less once its process has read it.
constexpr uint32_t kLongRoundTrips = 8;
constexpr uint64_t kMinOnTheWay = 96 << 10;

bool waits_on_the_way(const TcpProgress& connection) {
  return connection.in_flight_bytes >= kMinOnTheWay && connection.shortest_round_trip_us > 0 &&
         connection.round_trip_us / kLongRoundTrips >= connection.shortest_round_trip_us;
}

// At both looks, between which it had that rate.
bool waited(const TcpProgress& before, const TcpProgress& now, double rate, double best) {
  if (before.unsent_bytes > 0 && now.unsent_bytes > 0) {
    return true;
  }
  const double on_the_way = rate * now.round_trip_us;  // in the mean: Little's law
  const double well = best * kLongRoundTrips * now.shortest_round_trip_us;
  return waits_on_the_way(before) && waits_on_the_way(now) && on_the_way >= well;
}

}  // namespace

bool may_wait(const TcpProgress& connection) {
  return connection.unsent_bytes > 0 || waits_on_the_way(connection);
}

void RailRate::look(const RailLook& now, bool shared) {
  const std::optional<RailLook> before = last_;
  last_ = now;
  if (!before || now.time_ns <= before->time_ns ||
      now.connection.acknowledged_bytes < before->connection.acknowledged_bytes) {
    return;
  }
  const double seconds = static_cast<double>(now.time_ns - before->time_ns) / 1e9;
  const double busy =
      static_cast<double>(now.connection.busy_us - before->connection.busy_us) / 1e6;
  const double closed =
      static_cast<double>(now.connection.peer_full_us - before->connection.peer_full_us) / 1e6;
  const uint64_t bytes = now.connection.acknowledged_bytes - before->connection.acknowledged_bytes;
  if (shared && bytes < kSharedBytes) {
    last_ = before;
    return;
  }
  if (busy <= 0 || closed > kPeerFullPart * busy) {
    return;
  }
  Sample sample{.rate = static_cast<double>(bytes) / busy};
  sample.queued =
      busy >= kBusyPart * seconds && waited(before->connection, now.connection, sample.rate, best_);
  if (!shared && !sample.queued) {
    if (bytes >= kSharedBytes && !rates_.empty()) {  // so much found room
      rates_.pop_back();
    }
    return;
  }
  sample.at_most = sample.rate;
  if (now.rail_bytes && before->rail_bytes && *now.rail_bytes >= *before->rail_bytes) {
    const auto rail_bytes = static_cast<double>(*now.rail_bytes - *before->rail_bytes);
    sample.rate = std::max(sample.rate, rail_bytes / seconds);
    sample.at_most = shared ? std::max(sample.rate, rail_bytes / busy) : sample.rate;
  }
  if (rates_.size() == kSamples) {
    rates_.erase(rates_.begin());
  }
  rates_.push_back(sample);
  ++count_;
  if (!shared) {  // else pauses and token buckets make it seem faster than it is
    best_ = std::max(best_, this->now().value_or(0));
  }
}

void RailRate::restart() {
  last_.reset();
  rates_.clear();
  count_ = 0;
}

std::optional<double> RailRate::median(double Sample::*value) const {
  if (rates_.size() < kSamples) {
    return std::nullopt;
  }
  std::vector<double> sorted;
  std::ranges::transform(rates_, std::back_inserter(sorted), value);
  std::ranges::sort(sorted);
  return (sorted[(kSamples - 1) / 2] + sorted[kSamples / 2]) / 2;
}

std::optional<double> RailRate::now() const {
  return median(&Sample::rate);
}

std::optional<double> RailRate::at_most() const {
  return median(&Sample::at_most);
}

bool RailRate::slow(double had) const {
  return rates_.size() == kSamples && std::ranges::all_of(rates_, [had](const Sample& sample) {
           return sample.at_most < kSlow * had;
         });
}

bool RailRate::slow_with_queue(double had) const {
  return slow(had) && std::ranges::all_of(rates_, &Sample::queued);
}

// Each of n links does as much as its own rail does in a unit of time. Of the messages of the link
// whose rail is slow, that rail does own / sum, so it needs own / sum / part; each other rail does
// other / sum besides its own link's.
RailWeights weights_of_slow_rail(double part, size_t others) {
  RailWeights best;
  double least = 1 / std::max(part, 1e-6);
  for (uint8_t own = 1; own <= kMaxWeight && others > 0; ++own) {
    for (uint8_t other = 1; other <= kMaxWeight; ++other) {
      const double sum = own + static_cast<double>(others) * other;
      const double time = std::max(own / sum / part, 1 + other / sum);
      if (time < least * 0.99) {  // small weights where they do
        least = time;
        best = {own, other};
      }
    }
  }
  return best;
}

}  // namespace ho::tcp
