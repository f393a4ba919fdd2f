#include "comm/link_probe.hpp"

#include <algorithm>

namespace ho {
namespace {

using std::chrono::nanoseconds;

constexpr std::chrono::seconds kMaxTime{3};
// Of the timeout, for all probes of a phase together.
constexpr uint32_t kTimeoutShare = 4;
constexpr uint32_t kSkippedShare = 4;

}  // namespace

ProbeLength probe_length(std::chrono::milliseconds least,
                         uint32_t probes,
                         std::chrono::milliseconds timeout) {
  const nanoseconds share = nanoseconds(timeout) / kTimeoutShare / std::max(probes, 1U);
  const nanoseconds most = std::min<nanoseconds>(kMaxTime, share);
  return {std::min<nanoseconds>(least, most), most};
}

bool ends_probe(uint64_t sent, nanoseconds elapsed, const ProbeLength& length) {
  const uint64_t messages = sent + 1;
  if (elapsed >= length.most) {
    return messages >= kFewestMessages;
  }
  return elapsed >= length.least && messages >= kEnoughMessages;
}

double probe_rate(std::span<const nanoseconds> arrivals, size_t message_bytes) {
  if (arrivals.empty()) {
    return 0;
  }
  const nanoseconds end = arrivals.back();
  size_t counted_from = 0;
  while (counted_from < arrivals.size() / 2 && arrivals[counted_from] < end / kSkippedShare) {
    ++counted_from;
  }
  // The counted ones arrived after this one; a lone message has the beginning before it.
  const bool lone = arrivals.size() == 1;
  const nanoseconds start = lone ? nanoseconds(0) : arrivals[counted_from];
  const size_t messages = lone ? 1 : arrivals.size() - 1 - counted_from;
  const double seconds =
      std::chrono::duration<double>(std::max(end - start, nanoseconds(1))).count();
  return static_cast<double>(messages * message_bytes) / seconds;
}

}  // namespace ho
