// What the links of one transport share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "os/clock.hpp"
#include "transport/tcp/pacer.hpp"
#include "transport/tcp/poller.hpp"
#include "transport/tcp/replay.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace ho::tcp {

struct Context {
  TcpOptions options;
  std::unique_ptr<Poller> poller;
  std::unique_ptr<Pacer> pacer;    // null: no rail is paced
  std::vector<TcpEndpoint> peers;  // by global rank
  uint64_t turn = 0;               // calls of progress()
  uint32_t open_connections = 0;
  bool watches_peers = false;  // nobody else does
  bool suspects = false;       // a silence, since the last tick: the next one comes soon
  ReplayBudget replay{ReplayBudget::used_by_process()};
  std::vector<RailUse> rail_use{};  // by this host's rails; empty without failover

  // Between two looks at the links, unless something makes the next one come soon.
  [[nodiscard]] int64_t tick_ns() const {
    constexpr int64_t kLongestNs = 1'000'000'000;
    const FailoverOptions& failover = options.failover;
    return failover.on ? std::min(kLongestNs, ns_of(failover.silence) / 4) : kLongestNs;
  }
  // The same for a rail that may be slow. In less than that nothing shows.
  [[nodiscard]] int64_t doubt_ns() const {
    constexpr int64_t kShortestNs = 50'000'000;
    return std::max(tick_ns() / 4, std::min(tick_ns(), kShortestNs));
  }
};

// "rank 3" or peer_name, and "rank 3, rail 0" or peer_name.
[[nodiscard]] inline std::string peer_text(const Context& context, GlobalRank peer) {
  const std::string& name = context.options.peer_name;
  return name.empty() ? "rank " + std::to_string(peer.value()) : name;
}
[[nodiscard]] inline std::string link_text(const Context& context, const LinkKey& key) {
  const bool named = !context.options.peer_name.empty();
  return peer_text(context, key.peer) + (named ? "" : ", rail " + std::to_string(key.rail.value()));
}

}  // namespace ho::tcp
