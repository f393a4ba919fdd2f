// One connection of a comm, which remembers why it ended. What had arrived before the end is read
// first.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "base/status.hpp"
#include "connect/socket.hpp"
#include "transport/tcp/connection.hpp"

namespace ho::plugin {

class NetConnection {
 public:
  // After the handshake.
  explicit NetConnection(std::unique_ptr<Socket> socket)
      : connection_(std::move(socket), tcp::kAheadBytes) {}

  // For the checks of life and the end of output.
  [[nodiscard]] tcp::Connection& tcp() { return connection_; }
  [[nodiscard]] const Socket& socket() const { return connection_.socket(); }

  // As tcp::Connection's; false, or 0, also once it has ended.
  [[nodiscard]] bool fetch(size_t bytes) {
    return ended_ ? ahead().size() >= bytes : read_by(connection_.fetch(bytes));
  }
  [[nodiscard]] std::span<const std::byte> ahead() const { return connection_.ahead(); }
  void drop(size_t bytes) { connection_.drop(bytes); }
  [[nodiscard]] size_t read(std::span<std::byte> to) {
    return ended_ && ahead().empty() ? 0 : read_by(connection_.read(to));
  }
  [[nodiscard]] Result<size_t> write(std::span<iovec> buffers, size_t bytes) {
    return connection_.write(buffers, bytes);
  }

  // Why nothing more will come: closed or reset by the peer, or broken.
  [[nodiscard]] const std::optional<Status>& ended() const { return ended_; }
  // A write failed: a read tells why, after what had arrived.
  void look_for_end() { connection_.socket().readable = true; }

 private:
  template <typename Value>
  [[nodiscard]] Value read_by(const Result<Value>& result) {
    if (!result.ok()) {
      ended_ = result.status();
      return Value{};
    }
    return *result;
  }

  tcp::Connection connection_;
  std::optional<Status> ended_;
};

}  // namespace ho::plugin
