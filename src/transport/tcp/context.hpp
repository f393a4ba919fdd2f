// What the links of one transport share.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

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
  ReplayBudget replay{};
  uint64_t failovers = 0;
};

}  // namespace ho::tcp
