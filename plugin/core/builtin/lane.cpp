#include "core/builtin/lane.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ho::plugin {
namespace {

Status closed_by_peer(const char* how) {
  return {StatusCode::kPeerLost,
          std::string("the peer ") + how +
              " the connection: its process has ended or given up; look at its log"};
}

Status broken(const char* call, int errno_value) {
  if (errno_value == ECONNRESET || errno_value == EPIPE) {
    return closed_by_peer("reset");
  }
  return {StatusCode::kConnection,
          "the network is down (" + system_error(call, errno_value).message() +
              "): check cable, switch port and interface on both ends"};
}

}  // namespace

size_t NetLane::read_some(std::span<const iovec> buffers) {
  size_t asked = 0;
  for (const iovec& buffer : buffers) {
    asked += buffer.iov_len;
  }
  tcp::Socket& socket = stream_.socket();
  while (socket.readable && !ended_) {
    const ssize_t got = ::readv(socket.fd.get(), buffers.data(), static_cast<int>(buffers.size()));
    if (got > 0) {
      // A short read emptied the buffer; an end of stream behind it has its own edge.
      socket.readable = socket.hung_up || static_cast<size_t>(got) == asked;
      return static_cast<size_t>(got);
    }
    if (got == 0) {
      ended_ = closed_by_peer("closed");
    } else if (errno == EAGAIN) {
      socket.readable = false;
    } else if (errno != EINTR) {
      ended_ = broken("recv", errno);
    }
  }
  return 0;
}

bool NetLane::fetch(size_t bytes) {
  while (end_ - begin_ < bytes) {
    if (begin_ > 0) {
      std::memmove(ahead_.data(), ahead_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    const std::array<iovec, 1> rest{iovec{ahead_.data() + end_, ahead_.size() - end_}};
    const size_t got = read_some(rest);
    if (got == 0) {
      return false;
    }
    end_ += got;
  }
  return true;
}

size_t NetLane::read(std::span<std::byte> to) {
  if (begin_ < end_) {
    const size_t size = std::min(to.size(), end_ - begin_);
    std::memcpy(to.data(), ahead_.data() + begin_, size);
    begin_ += size;
    return size;
  }
  const std::array<iovec, 2> both{iovec{to.data(), to.size()}, iovec{ahead_.data(), ahead_.size()}};
  const size_t got = read_some(both);
  begin_ = 0;
  end_ = got - std::min(got, to.size());
  return std::min(got, to.size());
}

Result<size_t> NetLane::write(std::span<iovec> buffers, size_t bytes) {
  msghdr message{};
  message.msg_iov = buffers.data();
  message.msg_iovlen = buffers.size();
  tcp::Socket& socket = stream_.socket();
  while (socket.writable) {
    const ssize_t written = ::sendmsg(socket.fd.get(), &message, MSG_NOSIGNAL);
    if (written >= 0) {
      // A short write filled the buffer: the next edge comes when it has room.
      socket.writable = static_cast<size_t>(written) == bytes;
      return static_cast<size_t>(written);
    }
    if (errno == EAGAIN) {
      socket.writable = false;
    } else if (errno != EINTR) {
      return broken("send", errno);
    }
  }
  return size_t{0};
}

}  // namespace ho::plugin
