// One connection of a comm: reads and writes as much as the socket takes, straight from and into
// the caller's memory. What is read beyond it lies in a small buffer, from which the next headers
// and small messages are served.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "base/status.hpp"
#include "transport/tcp/poller.hpp"
#include "transport/tcp/stream.hpp"

namespace ho::plugin {

class NetLane {
 public:
  static constexpr size_t kAheadBytes = 4096;

  // After the handshake.
  explicit NetLane(std::unique_ptr<tcp::Socket> socket) : stream_(std::move(socket)) {}

  // For the checks of life and the end of output.
  [[nodiscard]] tcp::Stream& stream() { return stream_; }
  [[nodiscard]] const tcp::Socket& socket() const { return stream_.socket(); }

  // true: ahead() holds at least `bytes`, of at most kAheadBytes.
  [[nodiscard]] bool fetch(size_t bytes);
  [[nodiscard]] std::span<const std::byte> ahead() const {
    return std::span(ahead_).subspan(begin_, end_ - begin_);
  }
  void drop(size_t bytes) { begin_ += bytes; }
  // Fills `to` from its beginning; 0: nothing there now, or ended().
  [[nodiscard]] size_t read(std::span<std::byte> to);
  // The buffers have `bytes` altogether. 0: would block.
  [[nodiscard]] Result<size_t> write(std::span<iovec> buffers, size_t bytes);

  // Why nothing more will come: closed or reset by the peer, or broken. What had arrived before has
  // been read.
  [[nodiscard]] const std::optional<Status>& ended() const { return ended_; }
  // A write failed: a read tells why, after what had arrived.
  void look_for_end() { stream_.socket().readable = true; }

 private:
  [[nodiscard]] size_t read_some(std::span<const iovec> buffers);

  tcp::Stream stream_;
  std::array<std::byte, kAheadBytes> ahead_;
  size_t begin_ = 0;
  size_t end_ = 0;
  std::optional<Status> ended_;
};

}  // namespace ho::plugin
