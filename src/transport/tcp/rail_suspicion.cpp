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
constexpr double kShortestOtherSeconds = 0.08;
// So little of it has messages of one size, if a job's phases have one each.
constexpr double kPieceSeconds = 0.04;
// Below that part of what is usual something is the matter. Below that part of the other rail's
// rate, which has its own messages besides, it is the rail.
constexpr double kSuspicious = 0.7;
constexpr double kFounded = 0.7;
// Messages whose sizes differ by more may have such different rates for that alone.
constexpr double kSameSize = kFounded;
constexpr size_t kUsualSamples = 16;
// Where another rail is slow the job is, and then messages of some KiB all fit into this rail's
// token bucket. Such seconds make little of that usual.
constexpr size_t kFasterSamples = 256;
constexpr double kRecentPart = 0.5;  // of what is two samples old, and so on
// What was found so long ago may have been another cause.
constexpr size_t kConfirmedSamples = 64;
// Smaller messages take as long on any rail.
constexpr double kMinMessageBytes = 2048;
constexpr int64_t kFirstPauseNs = 10'000'000'000;
constexpr int64_t kLongestPauseNs = 64 * kFirstPauseNs;
constexpr int64_t kInDoubtNs = 1'000'000'000;  // of a link that is not in use: no longer
constexpr int kNoClass = 0;                    // kMinMessageBytes' is greater

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

void FlightSum::blend(double part, const FlightSum& latest) {
  const auto add = [part](double& sum, double now) { sum = part * sum + now; };
  add(bytes_, latest.bytes_);
  add(written_bytes_, latest.written_bytes_);
  add(messages_, latest.messages_);
  add(seconds_, latest.seconds_);
  add(peer_full_seconds_, latest.peer_full_seconds_);
}

double FlightSum::rate() const {
  return bytes_ / std::max(seconds_, kStepSeconds);
}

bool FlightSum::peer_full() const {
  return peer_full_seconds_ > kPeerFullPart * seconds_;
}

void RailSuspicion::OfSize::on_well(double sample) {
  ++samples;
  const bool faster = sample > usual && samples > kUsualSamples;
  const size_t among = faster ? kFasterSamples : std::min(samples, kUsualSamples);
  usual += (sample - usual) / static_cast<double>(among);
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
    sampled_at_ns_ = own.time_ns;
    for (auto& [other_class, other_size] : of_size_) {
      other_size.confirmed -= other_size.confirmed > 0 ? 1 : 0;
    }
    size_class_ = size_class(size);
    const double rate = sum_.rate();
    OfSize& of_size = of_size_[size_class_];
    usual_ = of_size.usual;
    of_size.recent.blend(kRecentPart, sum_);
    if (of_size.samples >= kSamples && rate < kSuspicious * usual_) {
      of_size.rate = of_size.below++ == 0 ? rate : std::max(of_size.rate, rate);
    } else {
      of_size.below = 0;
      if (std::exchange(of_size.confirmed, 0) > 0 && compared_) {
        pause_.begin(own.time_ns);
      }
      of_size.on_well(rate);
    }
  }
  sum_.begin_anew();
}

void RailSuspicion::look_at_other(const RailLook& other) {
  piece_.look(other);
  if (piece_.seconds() < kPieceSeconds || piece_.message_bytes() == 0) {
    return;
  }
  if (size_class(piece_.message_bytes()) == size_class_) {
    other_.blend(1, piece_);
  }
  piece_.begin_anew();
}

void RailSuspicion::restart() {
  sum_ = {};
  piece_ = {};
  other_ = {};
  sampled_ = false;
  for (auto& [other_class, of_size] : of_size_) {
    of_size.below = 0;
  }
}

const RailSuspicion::OfSize* RailSuspicion::last_sampled() const {
  const auto found = of_size_.find(size_class_);
  return found == of_size_.end() ? nullptr : &found->second;
}

bool RailSuspicion::needs_baseline(int64_t now_ns, size_t more) const {
  const OfSize* const of_size = sampled_ ? last_sampled() : nullptr;
  return of_size != nullptr && now_ns >= std::max(pause_.until_ns, baseline_pause_.until_ns) &&
         !of_size->has_baseline && size_class_ > well_.value_or(kNoClass) &&
         of_size->samples >= kBaselineAfter + more;
}

bool RailSuspicion::raised(int64_t now_ns, size_t more) const {
  const OfSize* const of_size = sampled_ ? last_sampled() : nullptr;
  return of_size != nullptr && now_ns >= pause_.until_ns && of_size->below >= kSamples + more;
}

double RailSuspicion::rate() const {
  const OfSize* const of_size = last_sampled();
  return of_size == nullptr ? 0 : of_size->rate;
}

bool RailSuspicion::in_doubt(int64_t now_ns) const {
  const OfSize* const of_size = last_sampled();
  return of_size != nullptr && now_ns >= pause_.until_ns && now_ns - sampled_at_ns_ < kInDoubtNs &&
         (of_size->below > 0 || of_size->confirmed > 0);
}

bool RailSuspicion::confirmed() const {
  const OfSize* const of_size = last_sampled();
  return of_size != nullptr && of_size->confirmed > 0;
}

bool RailSuspicion::comparable(const OfSize& own) const {
  const double size = own.recent.message_bytes();
  const double other = other_.message_bytes();
  return !other_.peer_full() && other >= kSameSize * size && size >= kSameSize * other;
}

RailSuspicion::Finding RailSuspicion::finding(bool last) const {
  const OfSize* const own = last_sampled();
  const bool can = own != nullptr && comparable(*own);
  const bool enough = can && other_.seconds() >= kOtherSeconds;
  if (!enough && !last) {
    return Finding::kNotYet;
  }
  if (!can || other_.seconds() < kShortestOtherSeconds) {
    return Finding::kNothing;
  }
  if (own->recent.rate() < kFounded * other_.rate()) {
    return Finding::kFaster;
  }
  return enough ? Finding::kNoFaster : Finding::kNothing;
}

void RailSuspicion::on_compared(Finding finding, bool for_baseline, int64_t now_ns) {
  compared_ = true;
  if (finding == Finding::kNothing) {
    (for_baseline ? baseline_pause_ : pause_).begin(now_ns);
  } else if (for_baseline) {
    OfSize& of_size = of_size_[size_class_];
    of_size.has_baseline = true;
    of_size.usual = std::max(of_size.usual, other_.rate());
    if (finding == Finding::kNoFaster) {
      well_ = std::max(well_.value_or(size_class_), size_class_);
    }
  } else if (finding == Finding::kFaster) {
    of_size_[size_class_].confirmed = kConfirmedSamples;
  } else {
    of_size_.erase(size_class_);
    well_.reset();  // that may have been chance
    pause_.begin(now_ns);
  }
}

void RailSuspicion::on_shared() {
  compared_ = false;
  pause_ = {.until_ns = pause_.until_ns};
}

void RailSuspicion::on_lost() {
  on_shared();
  for (auto& [other_class, of_size] : of_size_) {
    of_size.confirmed = 0;
  }
}

void RailSuspicion::Pause::begin(int64_t now_ns) {
  length_ns = std::clamp(2 * length_ns, kFirstPauseNs, kLongestPauseNs);
  until_ns = now_ns + length_ns;
}

}  // namespace ho::tcp
