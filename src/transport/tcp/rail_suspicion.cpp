#include "transport/tcp/rail_suspicion.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace ho::tcp {
namespace {

constexpr double kStepSeconds = 0.004;
constexpr double kSampleSeconds = 0.1;
constexpr double kOtherSeconds = 0.2;
// Below that part of what is usual something is the matter. Below that part of the other rail's
// rate, which has its own messages besides, it is the rail.
constexpr double kSuspicious = 0.7;
constexpr double kFounded = 0.7;
constexpr size_t kUsualSamples = 16;
// Messages that are so much larger or smaller, in powers of two, show nothing of the rail.
constexpr int kOtherSize = 2;
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
  seconds_ += grown(old.busy_us, now.connection.busy_us) / 1e6;
  peer_full_seconds_ += grown(old.peer_full_us, now.connection.peer_full_us) / 1e6;
}

void FlightSum::begin_anew() {
  const std::optional<RailLook> last = last_;
  *this = {};
  last_ = last;
}

double FlightSum::rate() const {
  return bytes_ / std::max(seconds_, kStepSeconds);
}

bool FlightSum::peer_full() const {
  return peer_full_seconds_ > kPeerFullPart * seconds_;
}

void RailSuspicion::look(const RailLook& own) {
  sum_.look(own);
  const double size = sum_.message_bytes();
  if (sum_.seconds() < kSampleSeconds || size == 0) {
    return;
  }
  if (size >= kMinMessageBytes && !sum_.peer_full()) {
    ++samples_;
    size_class_ = size_class(size);
    Usual& usual = usual_of_[size_class_];
    if (usual.samples >= kSamples && sum_.rate() < kSuspicious * usual.rate) {
      ++below_;
      rate_ = sum_.rate();
      usual_ = usual.rate;
    } else {
      below_ = 0;
      if (std::exchange(confirmed_, false)) {
        wait(own.time_ns);
      }
      usual.samples = std::min(usual.samples + 1, kUsualSamples);
      usual.rate += (sum_.rate() - usual.rate) / static_cast<double>(usual.samples);
    }
  }
  sum_.begin_anew();
}

void RailSuspicion::look_at_other(const RailLook& other) {
  sum_.look(other);
}

void RailSuspicion::restart() {
  sum_ = {};
  samples_ = 0;
  below_ = 0;
}

bool RailSuspicion::comparable() const {
  const int other_size = std::abs(size_class(sum_.message_bytes()) - size_class_);
  return !sum_.peer_full() && other_size <= kOtherSize;
}

void RailSuspicion::take_baseline() {
  has_baseline_ = true;
  Usual& usual = usual_of_[size_class_];
  if (usual.samples >= kSamples && comparable()) {
    usual.rate = std::max(usual.rate, sum_.rate());
  }
}

bool RailSuspicion::raised(int64_t now_ns, size_t more) const {
  return below_ >= kSamples + more && now_ns >= not_before_ns_;
}

std::optional<bool> RailSuspicion::founded() const {
  if (sum_.seconds() < kOtherSeconds || sum_.message_bytes() == 0) {
    return std::nullopt;
  }
  return comparable() && rate_ < kFounded * sum_.rate();
}

void RailSuspicion::on_unfounded(int64_t now_ns) {
  usual_of_.clear();
  wait(now_ns);
}

void RailSuspicion::wait(int64_t now_ns) {
  pause_ns_ = std::clamp(2 * pause_ns_, kFirstPauseNs, kLongestPauseNs);
  not_before_ns_ = now_ns + pause_ns_;
}

}  // namespace ho::tcp
