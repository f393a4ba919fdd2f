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
#include "connect/answers.hpp"
#include "connect/rail_interface.hpp"
#include "os/tcp_progress.hpp"
#include "transport/network_setup.hpp"
#include "transport/tcp/lost_paths.hpp"
#include "transport/transport.hpp"

namespace ho {

// A link that loses its connections opens others, over whichever rails there are, and sends again
// what has not arrived (docs/design/adr/0044-failover-in-the-link.md). All ranks or none.
struct FailoverOptions {
  // HORING_FAILOVER and what begins so.
  [[nodiscard]] static Result<FailoverOptions> from_environment();

  bool on = false;
  std::chrono::milliseconds silence{1000};   // unanswered for longer: the connection is lost
  std::chrono::milliseconds timeout{30000};  // for a way that comes back, where there is no other
  std::chrono::milliseconds answer{3500};  // of a host that was reached; then another way is tried
  uint64_t copied_bytes = uint64_t{32} << 20;  // of what has not arrived, by all of the process
  // Memory that was lent for so long is copied, whoever waits for it or not.
  std::chrono::nanoseconds lend = std::chrono::hours(1);
  // What links of this process have found out; of_process() outside of tests.
  std::shared_ptr<tcp::LostPaths> lost_paths = std::make_shared<tcp::LostPaths>();
};

struct TcpOptions : NetworkMember {
  std::vector<RailInterface> rails = {};  // of this rank's host, by RailIndex
  uint32_t connections_per_link = 1;
  uint32_t max_connections = 256;
  std::chrono::milliseconds connect_timeout{60000};
  FailoverOptions failover{};
  // What messages call the only peer, where ranks mean nothing: "peer 10.1.0.2:4000".
  std::string peer_name = {};
  // Tests have a kernel of their own.
  tcp::LookAtConnection look = tcp::look_at_connection;
  tcp::CountUnacknowledged count_unacknowledged = tcp::count_unacknowledged;
  std::function<std::optional<TcpProgress>(int fd)> progress = tcp_progress;
  std::function<std::string(const RailInterface& rail)> interface_trouble = ho::interface_trouble;
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
  // By global rank, before the first link(). With failover also later, where no more was known than
  // how the peer reaches this rank.
  virtual void set_peers(std::vector<TcpEndpoint> peers) = 0;
  [[nodiscard]] virtual uint32_t open_connections() const = 0;
  // All that was accepted is with the peers' hosts, or will never be: true without failover.
  [[nodiscard]] virtual bool all_arrived() = 0;
  // Nothing is received before the next try_recv, or try_peek for which something is awaited. Until
  // then the kernel acknowledges what comes as it does where somebody reads: so the peer sees how
  // fast its rail is, and not how late this process. wait_fd() may not say that something came.
  virtual void await_nothing() = 0;
  // wait_fd() becomes readable.
  virtual void wake() = 0;
};

}  // namespace ho
