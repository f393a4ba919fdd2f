// Messages between hosts over plain non-blocking TCP sockets. One listening port per rank; a link
// is one connection (or `connections` of them) between the two ranks, bound on both ends to the
// rail's interface. The lower global rank of a link connects, the higher accepts. All sockets live
// in one epoll instance, edge-triggered; there is no thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "auth/job_key.hpp"
#include "connect/rail_interface.hpp"
#include "transport/network_setup.hpp"
#include "transport/tcp/answers.hpp"
#include "transport/transport.hpp"

namespace ho {

struct TcpOptions : NetworkMember {
  std::vector<RailInterface> rails = {};  // of this rank's host, by RailIndex
  uint32_t connections_per_link = 1;
  uint32_t max_connections = 256;
  std::chrono::milliseconds connect_timeout{60000};
  tcp::LookAtConnection look = tcp::look_at_connection;  // tests have a kernel of their own
};

// Where a rank can be reached: its port on each of its host's rails.
struct TcpEndpoint {
  std::vector<std::string> rail_addresses;
  uint16_t port = 0;
};

class TcpTransport : public Transport {
 public:
  // Opens the listening port. Peers are unknown yet.
  [[nodiscard]] static Result<std::unique_ptr<TcpTransport>> listen(const TcpOptions& options);
  [[nodiscard]] virtual const TcpEndpoint& endpoint() const = 0;
  // By global rank; once, before the first link().
  virtual void set_peers(std::vector<TcpEndpoint> peers) = 0;
  [[nodiscard]] virtual uint32_t open_connections() const = 0;
};

}  // namespace ho
