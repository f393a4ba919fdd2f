#include "bootstrap/control/control_connection.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace ho {

void ControlConnection::queue(wire::Type type, uint64_t id, Body body) {
  const auto body_bytes = static_cast<uint32_t>(body ? body->size() : 0);
  output_.push_back({wire::encode(wire::Header{.type = type, .body_bytes = body_bytes, .id = id}),
                     std::move(body)});
  unsent_bytes_ += output_.back().total();
}

Status ControlConnection::send_some() {
  while (!output_.empty()) {
    Outgoing& head = output_.front();
    std::array<iovec, 2> parts{};
    int part_count = 0;
    const size_t in_header = std::min(head.sent, head.header.size());
    if (in_header < head.header.size()) {
      parts[0] = {head.header.data() + in_header, head.header.size() - in_header};
      part_count = 1;
    }
    const size_t in_body = head.sent - in_header;
    if (head.body && in_body < head.body->size()) {
      // iovec knows no const; sendmsg does not write.
      parts[static_cast<size_t>(part_count++)] = {
          const_cast<std::byte*>(head.body->data()) + in_body, head.body->size() - in_body};
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = static_cast<size_t>(part_count);
    const ssize_t sent = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) {
      continue;
    }
    if (sent < 0 && errno == EAGAIN) {
      return {};
    }
    if (sent < 0) {
      return system_error("send on the control connection", errno);
    }
    head.sent += static_cast<size_t>(sent);
    unsent_bytes_ -= static_cast<size_t>(sent);
    if (head.sent == head.total()) {
      output_.pop_front();
    }
  }
  return {};
}

Result<bool> ControlConnection::read_some() {
  std::array<std::byte, 65536> chunk;  // NOLINT(cppcoreguidelines-init-variables): recv fills it
  // Bounded, so that one busy peer does not keep its reader from the others.
  for (int round = 0; round < 4; ++round) {
    const ssize_t got = ::recv(fd_.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0 && errno == EAGAIN) {
      return true;
    }
    if (got < 0) {
      return system_error("receive on the control connection", errno);
    }
    if (got == 0) {
      return false;
    }
    splitter_.feed(std::span(chunk).first(static_cast<size_t>(got)));
    if (static_cast<size_t>(got) < chunk.size()) {
      return true;
    }
  }
  return true;
}

void ControlConnection::end_output() {
  ::shutdown(fd_.get(), SHUT_WR);
}

}  // namespace ho
