#include "tcp_ranks.hpp"

namespace ho::conformance {

TcpOptions options_of(const TcpCase& config, GlobalRank self, uint32_t world_size) {
  TcpOptions options;
  options.self = self;
  options.world_size = world_size;
  options.job_id = config.job_id;
  options.key = config.key;
  if (options.key == nullptr) {
    auto key = JobKey::from_text("a key for the tests of the transport");
    options.key = key.ok() ? *key : nullptr;
  }
  RailInterface rail{"", config.address};
  for (uint32_t slot = 0; slot < config.rails; ++slot) {
    if (config.pace_mbit > 0) {
      rail.pace = RailPace{.mbit = config.pace_mbit, .slot = slot};
    }
    options.rails.push_back(rail);
  }
  options.connections_per_link = config.connections_per_link;
  options.max_connections = config.max_connections;
  options.connect_timeout = config.connect_timeout;
  options.failover.on = config.fails_over;
  return options;
}

Status exchange_endpoints(TcpTransport& transport, uint32_t rank, Exchange& exchange) {
  const uint16_t port = transport.endpoint().port;
  HORING_ASSIGN(const auto ports, exchange.exchange(rank, std::as_bytes(std::span(&port, 1))));
  std::vector<TcpEndpoint> peers;
  for (const auto& blob : ports) {
    TcpEndpoint peer;
    peer.rail_addresses = transport.endpoint().rail_addresses;
    peer.port = static_cast<uint16_t>(std::to_integer<unsigned>(blob.at(0)) |
                                      std::to_integer<unsigned>(blob.at(1)) << 8);
    peers.push_back(peer);
  }
  transport.set_peers(std::move(peers));
  return {};
}

UnderTest tcp_under_test(const TcpCase& config) {
  UnderTest under_test;
  under_test.rails = config.rails;
  under_test.make = [config](GlobalRank self,
                             uint32_t world_size,
                             Exchange& exchange) -> Result<std::unique_ptr<Transport>> {
    HORING_ASSIGN(auto transport, TcpTransport::listen(options_of(config, self, world_size)));
    HORING_TRY(exchange_endpoints(*transport, self.value(), exchange));
    return std::unique_ptr<Transport>(std::move(transport));
  };
  return under_test;
}

}  // namespace ho::conformance
