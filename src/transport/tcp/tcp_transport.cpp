// The transport: one poller, one listening port, and the links by key.
#include "transport/tcp/tcp_transport.hpp"

#include <algorithm>
#include <map>
#include <thread>
#include <utility>

#include "base/log.hpp"
#include "connect/acceptor.hpp"
#include "os/clock.hpp"
#include "os/interface_events.hpp"
#include "os/socket.hpp"
#include "transport/tcp/context.hpp"
#include "transport/tcp/link_claim.hpp"
#include "transport/tcp/striping.hpp"
#include "transport/tcp/tcp_link.hpp"

namespace ho {
namespace tcp {
namespace {

Status check_options(const TcpOptions& options) {
  const auto invalid = [](std::string text) {
    return Status(StatusCode::kInvalidArgument, "tcp transport: " + std::move(text));
  };
  if (options.key == nullptr) {
    return invalid("no job key (JobKey::none() where there is none)");
  }
  if (options.rails.empty()) {
    return invalid(
        "no rail: no usable network interface was found or HORING_SOCKET_IFNAME "
        "excludes them all");
  }
  if (options.connections_per_link == 0 || options.connections_per_link > kMaxLinkConnections) {
    return invalid("HORING_TCP_STREAMS must be 1 to " + std::to_string(kMaxLinkConnections) +
                   ", not " + std::to_string(options.connections_per_link));
  }
  if (options.failover.on && options.rails.size() > kMaxFailoverRails) {
    return invalid("links that fail over take at most " + std::to_string(kMaxFailoverRails) +
                   " rails, there are " + std::to_string(options.rails.size()) +
                   "; choose them with HORING_SOCKET_IFNAME, or set HORING_FAILOVER=0");
  }
  for (const RailInterface& rail : options.rails) {
    if (rail.pace && rail.pace->slot >= Pacer::kMaxRails) {
      return invalid("at most " + std::to_string(Pacer::kMaxRails) + " rails can be paced");
    }
  }
  return {};
}

struct DataPort {
  std::vector<Fd> listeners;
  uint16_t port = 0;
};

// One socket per address family in use, on one port number that is free in both.
Result<DataPort> listen_for(const std::vector<RailInterface>& rails) {
  bool four = false;
  bool six = false;
  for (const RailInterface& rail : rails) {
    HORING_ASSIGN(const SocketAddress address, SocketAddress::numeric(rail.address, 0));
    (address.family() == AF_INET6 ? six : four) = true;
  }
  std::vector<SocketAddress> addresses;
  if (four || !six) {
    addresses.push_back(SocketAddress::any(0).back());
  }
  if (six) {
    addresses.push_back(SocketAddress::any(0).front());
  }
  DataPort data_port;
  HORING_ASSIGN(data_port.listeners, listen_at_one_port(addresses, Families::kOwn));
  HORING_ASSIGN(const SocketAddress bound, local_address(data_port.listeners.front().get()));
  data_port.port = bound.port();
  return data_port;
}

class SocketTransport final : public TcpTransport {
 public:
  explicit SocketTransport(const TcpOptions& options) { context_.options = options; }

  [[nodiscard]] Status open() {
    HORING_TRY(check_options(context_.options));
    HORING_ASSIGN(context_.poller, Poller::create());
    HORING_ASSIGN(context_.pacer, Pacer::create(context_.options.rails));
    HORING_ASSIGN(DataPort data_port, listen_for(context_.options.rails));
    endpoint_.port = data_port.port;
    HORING_ASSIGN(acceptor_, Acceptor::open(std::move(data_port.listeners), acceptor_options()));
    for (const RailInterface& rail : context_.options.rails) {
      endpoint_.rail_addresses.push_back(rail.address);
    }
    next_tick_ns_ = now_ns() + context_.tick_ns();
    context_.replay.most_bytes = context_.options.failover.copied_bytes;
    if (!context_.options.failover.on) {
      return {};
    }
    context_.rail_use.resize(context_.options.rails.size());
    return watch_interfaces();
  }

  [[nodiscard]] const TcpEndpoint& endpoint() const override { return endpoint_; }
  void set_peers(std::vector<TcpEndpoint> peers) override { context_.peers = std::move(peers); }
  [[nodiscard]] uint32_t open_connections() const override { return context_.open_connections; }
  void wake() override { context_.poller->wake_at(now_ns()); }
  [[nodiscard]] std::span<const RailUse> rail_use() const override { return context_.rail_use; }

  [[nodiscard]] Result<Link*> link(const LinkKey& key) override {
    if (const auto found = links_.find(key); found != links_.end()) {
      return static_cast<Link*>(found->second);
    }
    HORING_TRY(check_key(key));
    order_.push_back(std::make_unique<TcpLink>(context_, key));
    TcpLink* link = order_.back().get();
    links_.emplace(key, link);
    for (auto at = parked_.lower_bound({key, 0}); at != parked_.end() && at->first.first == key;) {
      const auto parked = parked_.extract(at++);
      if (link->can_attach(parked.mapped().claim)) {
        link->attach(parked.mapped().claim, std::move(parked.mapped().socket));
      }
    }
    link->advance();
    return static_cast<Link*>(link);
  }

  [[nodiscard]] std::vector<LinkKey> unrequested_links() const override {
    std::vector<LinkKey> found;
    for (const auto& [where, parked] : parked_) {
      if (where.first.channel >= kMessageChannel) {
        found.push_back(where.first);
      }
    }
    return found;
  }

  [[nodiscard]] Status progress() override {
    ++context_.turn;
    HORING_TRY(context_.poller->poll().status());
    const int64_t now = now_ns();
    if (interfaces_ != nullptr && std::exchange(interfaces_->readable, false) &&
        drain_interface_events(interfaces_->fd.get())) {
      next_tick_ns_ = now;
    }
    if (!acceptor_->idle()) {
      acceptor_->step(now);
      HORING_TRY(acceptor_->stuck(now));
      context_.poller->wake_at(acceptor_->next_deadline_ns());
    }
    for (const auto& link : order_) {
      link->advance();
    }
    close_idle();
    if (now >= next_tick_ns_) {
      next_tick_ns_ = now + context_.tick_ns();
      for (const auto& link : order_) {
        link->tick();
      }
      if (std::exchange(context_.suspects, false) && context_.options.failover.on) {
        next_tick_ns_ = now + context_.tick_ns() / 4;
      }
    }
    if (context_.open_connections > 0 || context_.watches_peers) {
      context_.poller->wake_at(next_tick_ns_);
    }
    return {};
  }

  [[nodiscard]] int wait_fd() const override { return context_.poller->fd(); }

  [[nodiscard]] bool prepare_wait(const WaitHint& hint) override {
    bool goes_on = false;
    for (const auto& link : order_) {
      goes_on |= link->take_unseen_event();
      goes_on |= hint.network_releases && link->release_lent();
    }
    return !goes_on;
  }
  void finish_wait() override {}

  [[nodiscard]] Service service() const override {
    if (!context_.options.failover.on) {
      return Service::kNone;
    }
    const bool mending =
        std::ranges::any_of(order_, [](const auto& link) { return link->mending(); });
    return mending || acceptor_->someone_waits() ? Service::kSoon : Service::kNowAndThen;
  }

  void watch_unconnected_peers() override {
    context_.watches_peers = true;
    context_.poller->wake_at(next_tick_ns_);
  }

  void await_nothing() override {
    for (const auto& link : order_) {
      link->await_nothing();
    }
  }
  [[nodiscard]] bool all_arrived() override {
    return std::ranges::all_of(order_, [](const auto& link) { return link->all_arrived(); });
  }

  void linger(Deadline deadline) override {
    // No event says that the last byte was acknowledged, so this looks again and again.
    constexpr std::chrono::microseconds kLongestPause(5000);
    std::chrono::microseconds pause(100);
    while (!all_arrived() && !passed(deadline) && progress().ok()) {
      std::this_thread::sleep_for(pause);
    }
    while (true) {
      bool pending = false;
      for (const auto& link : order_) {
        pending |= link->finish_output();
      }
      if (!pending || passed(deadline)) {
        return;
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, kLongestPause);
    }
  }

  [[nodiscard]] std::chrono::milliseconds linger_time() const override {
    constexpr std::chrono::milliseconds kOtherWay(3000);
    const FailoverOptions& failover = context_.options.failover;
    return failover.on ? failover.silence + kOtherWay : TcpTransport::linger_time();
  }

  [[nodiscard]] bool forgets_abandoned() override {
    return std::ranges::none_of(order_, [](const auto& link) {
      link->release_lent();
      return link->lends();
    });
  }

  [[nodiscard]] uint64_t memory_bytes() const override {
    uint64_t total = sizeof(*this) + parked_.size() * sizeof(Socket);
    total += context_.replay.memory.spare_bytes();
    for (const auto& link : order_) {
      total += link->memory_bytes();
    }
    return total;
  }

 private:
  // Connected by the peer before there was the link.
  struct Parked {
    LinkClaim claim;
    std::unique_ptr<Socket> socket;
  };

  // Where the kernel says nothing of them they are asked at each tick all the same.
  [[nodiscard]] Status watch_interfaces() {
    Fd events = open_interface_events();
    if (!events.valid()) {
      log_debug("no events of interfaces here; they are looked at now and then");
      return {};
    }
    interfaces_ = std::make_unique<Socket>(std::move(events));
    return context_.poller->add(*interfaces_);
  }

  [[nodiscard]] Status check_key(const LinkKey& key) const {
    const TcpOptions& options = context_.options;
    const std::string name = "link to rank " + std::to_string(key.peer.value()) + " on rail " +
                             std::to_string(key.rail.value()) + ": ";
    const auto invalid = [&](std::string text) {
      return Status(StatusCode::kInvalidArgument, name + std::move(text));
    };
    if (key.peer == options.self || key.peer.value() >= options.world_size ||
        key.peer.at() >= context_.peers.size()) {
      return invalid("no such peer of rank " + std::to_string(options.self.value()) +
                     " in a world of " + std::to_string(options.world_size));
    }
    const size_t peer_rails = context_.peers[key.peer.at()].rail_addresses.size();
    if (key.rail.at() >= options.rails.size() || key.rail.at() >= peer_rails) {
      return invalid("this host has " + std::to_string(options.rails.size()) +
                     " rails, the peer's " + std::to_string(peer_rails));
    }
    if (key.communicator != options.communicator || key.channel >= kLinkChannelCount) {
      return invalid("communicator " + std::to_string(key.communicator) + ", channel " +
                     std::to_string(key.channel) + " does not belong to this transport");
    }
    return {};
  }

  [[nodiscard]] Acceptor::Options acceptor_options() {
    Acceptor::Options options;
    const TcpOptions& own = context_.options;
    options.name = (own.peer_name.empty() ? "rank " + std::to_string(own.self.value())
                                          : "for " + own.peer_name) +
                   ", tcp port " + std::to_string(endpoint_.port);
    options.purpose = kHandshakePurpose;
    options.key = context_.options.key;
    options.handshake_time = context_.options.connect_timeout;
    options.max_handshakes = 1024;
    options.on_shortage = "each link to another node takes descriptors";
    options.watch = [this](Socket& socket) { return context_.poller->add(socket); };
    options.watch_sets_flags = true;
    options.judge = [this](const Acceptor::Arrival& arrival) { return judge(arrival); };
    options.deliver = [this](const Acceptor::Arrival& arrival, std::unique_ptr<Socket> socket) {
      deliver(*decode_claim(arrival.claim), std::move(socket));
    };
    return options;
  }

  [[nodiscard]] Status judge(const Acceptor::Arrival& arrival) const {
    HORING_ASSIGN(const LinkClaim claim, decode_claim(arrival.claim));
    HORING_TRY(check_claim(claim, context_.options));
    const RailInterface& rail = context_.options.rails.at(claim.to_rail.at());
    HORING_ASSIGN(const SocketAddress expected, address_on(rail, rail.address, 0));
    HORING_ASSIGN(const SocketAddress local, local_address(arrival.fd));
    if (expected.host() != local.host()) {
      return {StatusCode::kMismatch,
              "the connection came to " + local.host() + ", but rail " +
                  std::to_string(claim.to_rail.value()) + " of rank " +
                  std::to_string(context_.options.self.value()) + " is " + rail.address};
    }
    return decide(claim);
  }

  // Whether the link can take this connection: not a duplicate.
  [[nodiscard]] Status decide(const LinkClaim& claim) const {
    const LinkKey key = claim.key_of_peer();
    const auto found = links_.find(key);
    const auto parked = parked_.find({key, claim.connection});
    const bool free = found != links_.end()
                          ? found->second->can_attach(claim)
                          : parked == parked_.end() || parked->second.claim.epoch < claim.epoch;
    if (free) {
      return {};
    }
    if (claim.fails_over) {  // no news: two attempts met
      return {StatusCode::kConnection,
              "rank " + std::to_string(claim.from.value()) + " comes with attempt " +
                  std::to_string(claim.epoch) +
                  ", and there are connections of a newer one, or the link has failed"};
    }
    return {StatusCode::kMismatch,
            "rank " + std::to_string(claim.from.value()) + " has already opened connection " +
                std::to_string(claim.connection) + " of this link (rail " +
                std::to_string(claim.rail.value()) + ", channel " + std::to_string(claim.channel) +
                "), or the link has failed"};
  }

  void deliver(const LinkClaim& claim, std::unique_ptr<Socket> socket) {
    if (!decide(claim).ok()) {
      return;  // two equal claims were decided on in one turn
    }
    bind_accepted(socket->fd.get(), context_.options.rails.at(claim.to_rail.at()));
    tune_data_socket(socket->fd.get());
    const LinkKey key = claim.key_of_peer();
    if (const auto found = links_.find(key); found != links_.end()) {
      found->second->attach(claim, std::move(socket));
    } else {
      parked_.insert_or_assign(std::pair(key, claim.connection), Parked{claim, std::move(socket)});
    }
  }

  // Why at all: send() and recv() reach every rank, so a rank may come to have as many links as the
  // job has ranks, times connections and communicators. Each connection holds a descriptor on both
  // ends, of which 1024 are a usual limit, kernel memory as of its busiest time, and is probed
  // every few seconds; most are not used again soon (docs/design/adr/0019-one-acceptor.md).
  //
  // Above the cap, closes the longest unused link, or has the peer close it. The cap is where the
  // number of connections returns to, never a reason not to open a link. A link that is used again
  // while it closes waits only for what IdleClose says.
  void close_idle() {
    const uint32_t cap = context_.options.max_connections;
    if (context_.open_connections <= cap) {
      return;
    }
    uint32_t leaving = 0;
    TcpLink* oldest = nullptr;
    for (const auto& link : order_) {
      leaving += link->likely_to_close() ? context_.options.connections_per_link : 0;
      if (link->may_begin_close() &&
          (oldest == nullptr || link->last_used_turn() < oldest->last_used_turn())) {
        oldest = link.get();
      }
    }
    if (oldest != nullptr && context_.open_connections > cap + leaving) {
      oldest->begin_close();
    }
  }

  Context context_;
  TcpEndpoint endpoint_;
  std::unique_ptr<Acceptor> acceptor_;
  std::vector<std::unique_ptr<TcpLink>> order_;
  std::map<LinkKey, TcpLink*> links_;
  std::map<std::pair<LinkKey, uint8_t>, Parked> parked_;
  std::unique_ptr<Socket> interfaces_;  // null: nobody says when one changes
  int64_t next_tick_ns_ = 0;
};

}  // namespace
}  // namespace tcp

Result<std::unique_ptr<TcpTransport>> TcpTransport::listen(const TcpOptions& options) {
  auto transport = std::make_unique<tcp::SocketTransport>(options);
  HORING_TRY(transport->open());
  return std::unique_ptr<TcpTransport>(std::move(transport));
}

}  // namespace ho
