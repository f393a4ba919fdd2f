// The coordinator's connections to ranks over socket pairs, and the ranks' ends of them.
#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "bootstrap/control/peer_connections.hpp"
#include "catch.hpp"

namespace ho::test {

struct PeerEnds {
  Fd epoll{::epoll_create1(EPOLL_CLOEXEC)};
  PeerConnections connections;
  std::vector<std::unique_ptr<ControlConnection>> ends;  // rank r reads at ends[r]

  explicit PeerEnds(uint32_t ranks, bool keeps = false) : connections(epoll.get(), ranks) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      std::array<int, 2> pair{};
      REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair.data()) == 0);
      REQUIRE(connections.add(rank, Fd(pair[0]), keeps).ok());
      ends.push_back(std::make_unique<ControlConnection>(Fd(pair[1])));
    }
  }
  // What the rank finds.
  [[nodiscard]] std::vector<wire::Message> messages_at(uint32_t rank) const {
    std::vector<wire::Message> messages;
    REQUIRE(ends[rank]->read_some().ok());
    for (auto message = ends[rank]->next(); message.ok() && message->has_value();
         message = ends[rank]->next()) {
      messages.push_back(std::move(**message));
    }
    return messages;
  }
  [[nodiscard]] std::vector<wire::Type> types_at(uint32_t rank) const {
    std::vector<wire::Type> types;
    for (const wire::Message& message : messages_at(rank)) {
      types.push_back(message.header.type);
    }
    return types;
  }
};

}  // namespace ho::test
