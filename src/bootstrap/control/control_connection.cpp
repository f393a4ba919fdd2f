#include "bootstrap/control/control_connection.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <utility>

namespace ho {

void ControlConnection::queue(wire::Type type, uint64_t id, Body body) {
  const auto body_bytes = static_cast<uint32_t>(body ? body->size() : 0);
  push({.header = wire::encode(wire::Header{.type = type, .body_bytes = body_bytes, .id = id}),
        .body = std::move(body),
        .counts = type != wire::Type::kReceived});
}

void ControlConnection::push(Outgoing message) {
  unsent_bytes_ += message.total();
  output_.push_back(std::move(message));
}

Status ControlConnection::resume(Fd fd, std::optional<uint64_t> counted) {
  set_fd(std::move(fd));
  splitter_ = wire::Splitter();  // what has come in part comes again
  awaits_count_ = !counted.has_value();
  if (awaits_count_) {
    return {};
  }
  HORING_TRY(note_counted(*counted));
  send_again();
  return {};
}

void ControlConnection::send_again() {
  std::deque<Outgoing> again = std::exchange(kept_, {});
  std::ranges::move(output_, std::back_inserter(again));
  output_.clear();
  unsent_bytes_ = 0;
  kept_bytes_ = 0;
  tell_received();
  for (Outgoing& message : again) {
    if (message.counts) {
      message.sent = 0;
      push(std::move(message));
    }
  }
}

void ControlConnection::tell_received() {
  queue(wire::Type::kReceived, received_);
  reported_ = received_;
  untold_bytes_ = 0;
}

Status ControlConnection::note_counted(uint64_t count) {
  if (count < counted_ || count - counted_ > kept_.size()) {
    return {StatusCode::kProtocol,
            "it counts " + std::to_string(count) + " messages, and there are " +
                std::to_string(counted_) + " to " + std::to_string(counted_ + kept_.size())};
  }
  for (; counted_ < count; ++counted_) {
    kept_bytes_ -= kept_.front().total();
    kept_.pop_front();
  }
  return {};
}

Result<std::optional<wire::Message>> ControlConnection::next() {
  constexpr uint64_t kTellAfter = 32;
  constexpr size_t kTellAfterBytes = size_t{1} << 18U;
  while (true) {
    HORING_ASSIGN(auto message, splitter_.next());
    if (!message.has_value()) {
      return message;
    }
    if (message->header.type != wire::Type::kReceived) {
      ++received_;
      untold_bytes_ += message->body.size();
      if (keeps_ && (received_ - reported_ >= kTellAfter || untold_bytes_ >= kTellAfterBytes)) {
        tell_received();
      }
      return message;
    }
    if (!keeps_) {
      continue;  // HORING_FAILOVER differs: who compares what must match says so
    }
    HORING_TRY(note_counted(message->header.id));
    if (std::exchange(awaits_count_, false)) {
      send_again();
    }
  }
}

Status ControlConnection::send_some() {
  while (has_output()) {
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
      if (keeps_ && head.counts) {
        kept_bytes_ += head.total();
        kept_.push_back(std::move(head));
      }
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

void ControlConnection::refuse(Fd fd, const Status& why) {
  ControlConnection connection(std::move(fd));
  connection.queue(wire::Type::kRefusal, 0, outcome_body(why));
  (void)connection.send_some();  // a fresh socket's buffer takes it
}

void ControlConnection::end_output() {
  ::shutdown(fd_.get(), SHUT_WR);
}

}  // namespace ho
