#include <string>
#include <utility>

#include "base/env.hpp"
#include "transport/network_setup.hpp"
#include "transport/tcp/endpoint_blob.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace ho {
namespace {

Result<std::unique_ptr<Transport>> make(const NetworkSetup& setup, const TcpOptions& options) {
  HORING_ASSIGN(auto tcp, TcpTransport::listen(options));
  HORING_ASSIGN(const auto blobs, setup.exchange("endpoints", encode(tcp->endpoint())));
  std::vector<TcpEndpoint> peers;
  for (size_t rank = 0; rank < blobs.size(); ++rank) {
    Result<TcpEndpoint> peer = parse_endpoint(blobs[rank], options.rails.size());
    if (!peer.ok()) {
      return peer.status().with_context("endpoint of rank " + std::to_string(rank));
    }
    peers.push_back(*std::move(peer));
  }
  tcp->set_peers(std::move(peers));
  return std::unique_ptr<Transport>(std::move(tcp));
}

}  // namespace

Result<MakeNetwork> tcp_network() {
  HORING_ASSIGN(const uint64_t connections_per_link, env::number(env::kTcpStreams));
  HORING_ASSIGN(const uint64_t connections, env::number(env::kTcpMaxConnections));
  return MakeNetwork([connections_per_link, connections](const NetworkSetup& setup) {
    TcpOptions options{setup};
    options.rails = setup.rails;
    options.connect_timeout = setup.connect_timeout;
    options.connections_per_link = static_cast<uint32_t>(connections_per_link);
    options.max_connections = static_cast<uint32_t>(connections);
    return make(setup, options);
  });
}

}  // namespace ho
