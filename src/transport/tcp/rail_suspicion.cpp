#include "transport/tcp/rail_suspicion.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ho::tcp {
namespace {

constexpr double kStepSeconds = 0.004;
constexpr double kSampleSeconds = 0.1;
constexpr double kOtherSeconds = 0.2;
// Enough of a rail that turns out to be faster: the slower the own one is, the less of the time
// does the other one need.
constexpr double kShortestOtherSeconds = 0.05;
// Below that part of what is usual something is the matter. Below that part of the other rail's
// rate, which has its own messages besides, it is the rail.
constexpr double kSuspicious = 0.7;
constexpr double kFounded = 0.7;
// Messages whose sizes differ by more may have such different rates for that alone.
constexpr double kSameSize = kFounded;
constexpr size_t kUsualSamples = 16;
// Smaller messages take as long on any rail.
constexpr double kMinMessageBytes = 2048;
constexpr int64_t kFirstPauseNs = 10'000'000'000;
constexpr int64_t kLongestPauseNs = 64 * kFirstPauseNs;

// Powers of two lie in the middle of theirs.
int size_class(double bytes) {
  return std::ilogb(bytes * 4 / 3);
}

}  // namespace

void FlightSum::look(const RailLook& now) {
  const std::optional<RailLook> before = std::exchange(last_, now);
  if (!before || now.connection.acknowledged_bytes < before->connection.acknowledged_bytes) {
    return;
  }
  const auto grown = [](uint64_t from, uint64_t to) { return static_cast<double>(to - from); };
  const TcpProgress& old = before->connection;
  bytes_ += grown(old.acknowledged_bytes, now.connection.acknowledged_bytes);
  messages_ += grown(before->messages, now.messages);
  written_bytes_ += grown(before->written_bytes, now.written_bytes);
  seconds_ += grown(before->busy_us, now.busy_us) / 1e6;
  peer_full_seconds_ += grown(before->peer_full_us, now.peer_full_us) / 1e6;
}

void FlightSum::begin_anew() {
  const std::optional<RailLook> last = last_;
  *this = {};
  last_ = last;
}

void FlightSum::blend(const FlightSum& latest) {
  const auto add = [](double& sum, double now) { sum = sum / 2 + now; };
  add(bytes_, latest.bytes_);
  add(written_bytes_, latest.written_bytes_);
  add(messages_, latest.messages_);
  add(seconds_, latest.seconds_);
}

double FlightSum::rate() const {
  return bytes_ / std::max(seconds_, kStepSeconds);
}

bool FlightSum::peer_full() const {
  return peer_full_seconds_ > kPeerFullPart * seconds_;
}

void RailSuspicion::look(const RailLook& own) {
  sampled_ = false;
  sum_.look(own);
  const double size = sum_.message_bytes();
  if (sum_.seconds() < kSampleSeconds || size == 0) {
    return;
  }
  sampled_ = size >= kMinMessageBytes && !sum_.peer_full();
  if (sampled_) {
    size_class_ = size_class(size);
    recent_.blend(sum_);
    rate_ = sum_.rate();
    OfSize& of_size = of_size_[size_class_];
    usual_ = of_size.usual;
    if (of_size.samples >= kSamples && rate_ < kSuspicious * usual_) {
      ++of_size.below;
    } else {
      of_size.below = 0;
      if (confirmed()) {
        confirmed_.reset();
        wait(own.time_ns);
      }
      ++of_size.samples;
      const size_t samples = std::min(of_size.samples, kUsualSamples);
      of_size.usual += (rate_ - usual_) / static_cast<double>(samples);
    }
  }
  sum_.begin_anew();
}

void RailSuspicion::look_at_other(const RailLook& other) {
  sum_.look(other);
}

void RailSuspicion::restart() {
  sum_ = {};
  sampled_ = false;
  for (auto& [size, of_size] : of_size_) {
    of_size.below = 0;
  }
}

bool RailSuspicion::needs_baseline(int64_t now_ns, size_t more) const {
  if (well_ || !sampled_ || now_ns < not_before_ns_) {
    return false;
  }
  const OfSize& of_size = of_size_.at(size_class_);
  return !of_size.has_baseline && of_size.samples >= kBaselineAfter + more;
}

bool RailSuspicion::raised(int64_t now_ns, size_t more) const {
  return sampled_ && now_ns >= not_before_ns_ && of_size_.at(size_class_).below >= kSamples + more;
}

bool RailSuspicion::comparable() const {
  const double own = recent_.message_bytes();
  const double other = sum_.message_bytes();
  return !sum_.peer_full() && other >= kSameSize * own && own >= kSameSize * other;
}

RailSuspicion::Finding RailSuspicion::finding(bool last) const {
  const bool enough = sum_.seconds() >= kOtherSeconds && comparable();
  if (!enough && !last) {
    return Finding::kNotYet;
  }
  if (sum_.seconds() < kShortestOtherSeconds || !comparable()) {
    return Finding::kNothing;
  }
  if (recent_.rate() < kFounded * sum_.rate()) {
    return Finding::kFaster;
  }
  return enough ? Finding::kNoFaster : Finding::kNothing;
}

void RailSuspicion::on_compared(Finding finding, bool for_baseline, int64_t now_ns) {
  if (finding == Finding::kNothing) {
    wait(now_ns);
  } else if (for_baseline) {
    OfSize& of_size = of_size_[size_class_];
    of_size.has_baseline = true;
    of_size.usual = std::max(of_size.usual, sum_.rate());
    well_ = finding == Finding::kNoFaster;
  } else if (finding == Finding::kFaster) {
    confirmed_ = size_class_;
  } else {
    of_size_.erase(size_class_);
    well_ = false;  // this may have been chance
    wait(now_ns);
  }
}

void RailSuspicion::on_left() {
  confirmed_.reset();
  pause_ns_ = 0;
}

// Longer each time.
void RailSuspicion::wait(int64_t now_ns) {
  pause_ns_ = std::clamp(2 * pause_ns_, kFirstPauseNs, kLongestPauseNs);
  not_before_ns_ = now_ns + pause_ns_;
}

}  // namespace ho::tcp
