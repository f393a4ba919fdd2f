#include "connect/handshake_io.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace ho {
namespace {

// false: would block or lost; `lost` says which.
bool send_output(Socket& socket, Handshake& handshake, bool& lost) {
  while (!handshake.output().empty()) {
    if (!socket.writable) {
      return false;
    }
    const auto output = handshake.output();
    const ssize_t sent = ::send(socket.fd.get(), output.data(), output.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      handshake.sent(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      socket.writable = false;
    } else if (errno != EINTR) {
      lost = true;
      return false;
    }
  }
  return true;
}

// One read. false: would block, nothing is wanted, or lost; `lost` says which.
Result<bool> read_input(Socket& socket, Handshake& handshake, bool& lost) {
  std::array<std::byte, 1024> bytes;  // NOLINT: filled by recv
  const size_t wanted = std::min(handshake.wanted(), bytes.size());
  if (wanted == 0 || !socket.readable) {
    return false;
  }
  const ssize_t got = ::recv(socket.fd.get(), bytes.data(), wanted, 0);
  if (got > 0) {
    HORING_TRY(handshake.consume(std::span(bytes).first(static_cast<size_t>(got))));
    return true;
  }
  if (got < 0 && errno == EAGAIN) {
    socket.readable = false;
    return false;
  }
  lost = got == 0 || errno != EINTR;
  return !lost;
}

}  // namespace

Result<HandshakeState> advance_handshake(Socket& socket, Handshake& handshake, bool only_asks) {
  while (true) {
    bool lost = false;
    if (!send_output(socket, handshake, lost)) {
      return lost ? HandshakeState::kLost : HandshakeState::kPending;
    }
    if (handshake.done()) {
      return HandshakeState::kDone;
    }
    if (handshake.needs_decision()) {
      return HandshakeState::kDecide;
    }
    HORING_ASSIGN(const bool read, read_input(socket, handshake, lost));
    if (!read) {
      return lost ? HandshakeState::kLost : HandshakeState::kPending;
    }
    if (only_asks && !handshake.output().empty()) {
      return HandshakeState::kAnswered;
    }
  }
}

void flush_refusal(Socket& socket, Handshake& handshake) {
  bool lost = false;
  send_output(socket, handshake, lost);
  ::shutdown(socket.fd.get(), SHUT_WR);
  // Unread bytes at close would turn the refusal into a reset.
  std::array<std::byte, 1024> rest;  // NOLINT: discarded
  for (int reads = 0; reads < 16; ++reads) {
    if (::recv(socket.fd.get(), rest.data(), rest.size(), 0) <= 0) {
      break;
    }
  }
}

}  // namespace ho
