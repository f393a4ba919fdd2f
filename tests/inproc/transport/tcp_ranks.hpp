// TCP transports for thread ranks of one test process.
#pragma once

#include <string>

#include "conformance.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace ho::conformance {

struct TcpCase {
  std::string address = "127.0.0.1";
  uint32_t rails = 1;
  uint32_t connections_per_link = 1;
  uint32_t max_connections = 256;
  uint64_t pace_mbit = 0;
  uint64_t job_id = 4711;
  bool fails_over = false;
  std::chrono::milliseconds connect_timeout{20000};
  std::shared_ptr<const JobKey> key;  // nullptr: a fixed test key
};

[[nodiscard]] TcpOptions options_of(const TcpCase& config, GlobalRank self, uint32_t world_size);
[[nodiscard]] UnderTest tcp_under_test(const TcpCase& config);
// Exchanges the endpoints and sets the peers.
[[nodiscard]] Status exchange_endpoints(TcpTransport& transport, uint32_t rank, Exchange& exchange);

}  // namespace ho::conformance
