#include "connect/answers.hpp"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>

namespace ho::tcp {
namespace {

// A rail is down when the peer's kernel has been silent for that long, at that many checks.
constexpr std::chrono::milliseconds kSilence{10'000};
constexpr uint32_t kNeededChecks = 2;

// Retransmissions or window probes that nobody answers. Both counters go back to 0 with every
// answer, so a stopped peer (closed window, answered probes) shows 0, or 1 for a moment.
unsigned tries(const tcp_info& details) {
  return std::max(details.tcpi_retransmits, details.tcpi_probes);
}

}  // namespace

std::optional<tcp_info> look_at_connection(int fd) {
  tcp_info details{};
  auto size = static_cast<socklen_t>(sizeof details);
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &details, &size) != 0) {
    return std::nullopt;
  }
  return details;
}

std::optional<uint64_t> count_unacknowledged(int fd) {
  int bytes = 0;
  if (::ioctl(fd, SIOCOUTQ, &bytes) != 0) {
    return std::nullopt;
  }
  return static_cast<uint64_t>(bytes);
}

bool unanswered(const tcp_info& details) {
  constexpr uint32_t kSilentMs = 1000;
  return tries(details) > 1 || (tries(details) == 1 && details.tcpi_last_ack_recv > kSilentMs);
}

// The kernel counts since the last answer, which may have been long before the first byte that has
// none: nothing was sent.
std::chrono::milliseconds AnswerWatch::unanswered_for(const tcp_info& details, int64_t time_ns) {
  if (tries(details) == 0) {
    answered_at_ns_ = time_ns;
  }
  const std::chrono::milliseconds silent(details.tcpi_last_ack_recv);
  if (answered_at_ns_ == 0) {
    return silent;
  }
  return std::min(silent,
                  std::chrono::ceil<std::chrono::milliseconds>(
                      std::chrono::nanoseconds(time_ns - answered_at_ns_)));
}

Status AnswerWatch::check(const tcp_info& details, int64_t time_ns) {
  const auto unanswered = unanswered_for(details, time_ns);
  return note(tries(details) > 0 && unanswered > kSilence, unanswered);
}

Status AnswerWatch::check(const tcp_info& details,
                          std::chrono::milliseconds silence,
                          int64_t time_ns) {
  const auto unanswered = unanswered_for(details, time_ns);
  return note(tries(details) > 1 && unanswered > silence, unanswered);
}

Status AnswerWatch::note(bool silent, std::chrono::milliseconds unanswered) {
  unanswered_checks_ = silent ? unanswered_checks_ + 1 : 0;
  if (unanswered_checks_ < kNeededChecks) {
    return {};
  }
  return {StatusCode::kConnection,
          "the rail is down: data sent has been unanswered for " +
              (unanswered < kSilence ? std::to_string(unanswered.count()) + " ms"
                                     : std::to_string(unanswered.count() / 1000) + " s") +
              "; check cable, switch port and interface on both ends"};
}

}  // namespace ho::tcp
