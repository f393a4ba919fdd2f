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

}  // namespace

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
  const bool queued = before->connection.unsent_bytes > 0 && now.connection.unsent_bytes > 0 &&
                      busy >= kBusyPart * seconds;
  if (shared && bytes < kSharedBytes) {
    last_ = before;
    return;
  }
  if (!(shared || queued) || busy <= 0 || closed > kPeerFullPart * busy) {
    return;
  }
  Sample sample{.rate = static_cast<double>(bytes) / busy};
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
