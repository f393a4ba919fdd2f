// A comm of the builtin network whose peer is the fuzzer: it has written its bytes and closed.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "base/logger.hpp"
#include "core/builtin/comm.hpp"
#include "fuzz.hpp"
#include "os/fd.hpp"

namespace fuzz {

// Two connections; the first byte says how many of the bytes come on the first one.
inline ho::plugin::ConnectionSet connections_with(const uint8_t* data, size_t size) {
  ho::logger().set_level(spdlog::level::off);
  const size_t split = size == 0 ? 0 : size * data[0] / 255;
  std::vector<std::unique_ptr<ho::Socket>> sockets;
  for (const auto& [begin, end] : {std::pair(std::min<size_t>(size, 1), split), {split, size}}) {
    std::array<int, 2> ends{};
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0);
    const ho::Fd peer(ends[1]);
    sockets.push_back(std::make_unique<ho::Socket>(ho::Fd(ends[0])));
    if (begin < end) {
      require(::send(peer.get(), data + begin, end - begin, MSG_NOSIGNAL) >= 0);
    }
  }
  auto connections = ho::plugin::make_connections("fuzz0", "fuzzer", std::move(sockets));
  require(connections.ok());
  return *std::move(connections);
}

}  // namespace fuzz
