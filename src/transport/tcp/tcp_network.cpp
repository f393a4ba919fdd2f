#include <algorithm>
#include <string>
#include <utility>

#include "base/env.hpp"
#include "transport/network_setup.hpp"
#include "transport/tcp/endpoint_blob.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace ho {
namespace {

constexpr size_t kMaxHostNics = 64;  // rails and spares of a host; each has a byte in a claim

Result<std::unique_ptr<Transport>> make(const NetworkSetup& setup, const TcpOptions& options) {
  HORING_ASSIGN(auto tcp, TcpTransport::listen(options));
  HORING_ASSIGN(const auto blobs, setup.exchange("endpoints", encode(tcp->endpoint())));
  std::vector<TcpEndpoint> peers;
  for (size_t rank = 0; rank < blobs.size(); ++rank) {
    // With failover the spares come after the rails.
    const size_t most = std::max(setup.rails.size(), options.failover.on ? kMaxHostNics : 0);
    Result<TcpEndpoint> peer = parse_endpoint(blobs[rank], setup.rails.size(), most);
    if (!peer.ok()) {
      return peer.status().with_context("endpoint of rank " + std::to_string(rank));
    }
    peers.push_back(*std::move(peer));
  }
  tcp->set_peers(std::move(peers));
  return std::unique_ptr<Transport>(std::move(tcp));
}

}  // namespace

Result<FailoverOptions> FailoverOptions::from_environment() {
  FailoverOptions options;
  options.lost_paths = tcp::LostPaths::of_process();
  HORING_ASSIGN(options.on, env::flag(env::kFailover));
  HORING_ASSIGN(const uint64_t silence_ms, env::number(env::kFailoverDetectMs));
  HORING_ASSIGN(const uint64_t timeout_ms, env::number(env::kFailoverWaitMs));
  HORING_ASSIGN(options.copied_bytes, env::number(env::kFailoverBytes));
  options.silence = std::chrono::milliseconds(silence_ms);
  options.timeout = std::chrono::milliseconds(timeout_ms);
  return options;
}

Result<MakeNetwork> tcp_network() {
  HORING_ASSIGN(const uint64_t connections_per_link, env::number(env::kTcpStreams));
  HORING_ASSIGN(const uint64_t connections, env::number(env::kTcpMaxConnections));
  HORING_ASSIGN(const FailoverOptions failover, FailoverOptions::from_environment());
  return MakeNetwork([connections_per_link, connections, failover](const NetworkSetup& setup) {
    TcpOptions options{setup};
    options.rails = setup.rails;
    options.connect_timeout = setup.connect_timeout;
    options.connections_per_link = static_cast<uint32_t>(connections_per_link);
    options.max_connections = static_cast<uint32_t>(connections);
    options.failover = failover;
    for (const RailInterface& spare : setup.spares) {
      if (failover.on && options.rails.size() < kMaxHostNics) {
        options.rails.push_back(spare);
      }
    }
    return make(setup, options);
  });
}

}  // namespace ho
