// How far a TCP connection's data has come, as this host's kernel counts it. Any thread.
#pragma once

#include <cstdint>
#include <optional>

namespace ho {

struct TcpProgress {
  uint64_t acknowledged_bytes = 0;
  uint32_t unsent_bytes = 0;     // written, and not yet sent
  uint64_t busy_us = 0;          // with something written that is not acknowledged
  uint64_t peer_full_us = 0;     // of that, while the peer took no more
  uint64_t in_flight_bytes = 0;  // sent, and not yet acknowledged
  uint32_t round_trip_us = 0;    // of the last ones, smoothed
  uint32_t shortest_round_trip_us = 0;
};

// Nothing where the kernel does not tell (Linux before 4.10).
[[nodiscard]] std::optional<TcpProgress> tcp_progress(int fd);

}  // namespace ho
