#include "os/tcp_progress.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstring>

namespace ho {
namespace {

// Older C libraries' tcp_info ends before these; the kernel's only grows at its end.
constexpr size_t kAcknowledgedAt = 120;
constexpr size_t kUnsentAt = 144;
constexpr size_t kShortestRoundTripAt = 148;
constexpr size_t kBusyAt = 168;
constexpr size_t kPeerFullAt = 176;
constexpr size_t kNeededBytes = 184;
static_assert(offsetof(tcp_info, tcpi_total_retrans) + sizeof(uint32_t) + 2 * sizeof(uint64_t) ==
              kAcknowledgedAt);

using Info = std::array<char, kNeededBytes>;

template <typename T>
T load_at(const Info& bytes, size_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace

std::optional<TcpProgress> tcp_progress(int fd) {
  Info bytes{};
  auto size = static_cast<socklen_t>(bytes.size());
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, bytes.data(), &size) != 0 || size < kNeededBytes) {
    return std::nullopt;
  }
  const uint64_t in_flight = load_at<uint32_t>(bytes, offsetof(tcp_info, tcpi_unacked));
  const uint64_t segment_bytes = load_at<uint32_t>(bytes, offsetof(tcp_info, tcpi_snd_mss));
  return TcpProgress{.acknowledged_bytes = load_at<uint64_t>(bytes, kAcknowledgedAt),
                     .unsent_bytes = load_at<uint32_t>(bytes, kUnsentAt),
                     .busy_us = load_at<uint64_t>(bytes, kBusyAt),
                     .peer_full_us = load_at<uint64_t>(bytes, kPeerFullAt),
                     .in_flight_bytes = in_flight * segment_bytes,
                     .round_trip_us = load_at<uint32_t>(bytes, offsetof(tcp_info, tcpi_rtt)),
                     .shortest_round_trip_us = load_at<uint32_t>(bytes, kShortestRoundTripAt)};
}

}  // namespace ho
