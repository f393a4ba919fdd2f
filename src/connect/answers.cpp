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
constexpr uint32_t kSilenceMs = 10'000;
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

Status AnswerWatch::check(const tcp_info& details) {
  return note(tries(details) > 0 && details.tcpi_last_ack_recv > kSilenceMs, details);
}

Status AnswerWatch::check(const tcp_info& details, std::chrono::milliseconds silence) {
  return note(tries(details) > 1 && details.tcpi_last_ack_recv > silence.count(), details);
}

Status AnswerWatch::note(bool silent, const tcp_info& details) {
  unanswered_checks_ = silent ? unanswered_checks_ + 1 : 0;
  if (unanswered_checks_ < kNeededChecks) {
    return {};
  }
  return {StatusCode::kConnection,
          "the rail is down: data sent has been unanswered for " +
              (details.tcpi_last_ack_recv < 10'000
                   ? std::to_string(details.tcpi_last_ack_recv) + " ms"
                   : std::to_string(details.tcpi_last_ack_recv / 1000) + " s") +
              "; check cable, switch port and interface on both ends"};
}

}  // namespace ho::tcp
