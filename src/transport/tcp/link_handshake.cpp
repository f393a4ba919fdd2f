#include "transport/tcp/link_handshake.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/bytes.hpp"

namespace ho::tcp {
namespace {

constexpr uint8_t kClaimVersion = 1;

Status refuse(std::string text) {
  return {StatusCode::kMismatch, std::move(text)};
}

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

std::array<std::byte, kClaimBytes> encode(const LinkClaim& claim) {
  std::array<std::byte, kClaimBytes> bytes{};
  store_le(bytes, 0, kClaimVersion);
  store_le(bytes, 1, claim.channel);
  store_le(bytes, 2, claim.communicator);
  store_le(bytes, 4, claim.from.value());
  store_le(bytes, 8, claim.to.value());
  store_le(bytes, 12, claim.rail.value());
  store_le(bytes, 16, claim.job_id);
  store_le(bytes, 24, claim.stream);
  store_le(bytes, 25, claim.stream_count);
  return bytes;
}

Result<LinkClaim> decode_claim(std::span<const std::byte> bytes) {
  if (bytes.size() != kClaimBytes || load_le<uint8_t>(bytes, 0) != kClaimVersion) {
    return Status(StatusCode::kProtocol, "the claim is not one of a data connection");
  }
  LinkClaim claim;
  claim.channel = load_le<uint8_t>(bytes, 1);
  claim.communicator = load_le<uint16_t>(bytes, 2);
  claim.from = GlobalRank(load_le<uint32_t>(bytes, 4));
  claim.to = GlobalRank(load_le<uint32_t>(bytes, 8));
  claim.rail = RailIndex(load_le<uint32_t>(bytes, 12));
  claim.job_id = load_le<uint64_t>(bytes, 16);
  claim.stream = load_le<uint8_t>(bytes, 24);
  claim.stream_count = load_le<uint8_t>(bytes, 25);
  return claim;
}

Status check_claim(const LinkClaim& claim, const TcpOptions& options) {
  const std::string self = "rank " + std::to_string(options.self.value());
  if (claim.job_id != options.job_id) {
    return refuse(self + " belongs to another job (or to another start of this one)");
  }
  if (claim.to != options.self) {
    return refuse("this is " + self + ", and the connection is for rank " +
                  std::to_string(claim.to.value()));
  }
  if (claim.from >= options.self || claim.from.value() >= options.world_size) {
    return refuse("rank " + std::to_string(claim.from.value()) + " does not connect to " + self +
                  " in a world of " + std::to_string(options.world_size));
  }
  if (claim.communicator != options.communicator) {
    return refuse("this port serves communicator " + std::to_string(options.communicator) +
                  ", not " + std::to_string(claim.communicator));
  }
  if (claim.rail.at() >= options.rails.size()) {
    return refuse(self + " has " + std::to_string(options.rails.size()) + " rails, so none with " +
                  "index " + std::to_string(claim.rail.value()));
  }
  if (claim.channel >= kChannelCount) {
    return refuse("channel " + std::to_string(claim.channel) + " does not exist");
  }
  if (claim.stream_count != options.streams || claim.stream >= options.streams) {
    return refuse("rank " + std::to_string(claim.from.value()) + " uses " +
                  std::to_string(claim.stream_count) + " streams per link (this is number " +
                  std::to_string(claim.stream) + "), " + self + " " +
                  std::to_string(options.streams) + "; set HORING_TCP_STREAMS alike on all ranks");
  }
  return {};
}

Result<HandshakeState> advance_handshake(Socket& socket, Handshake& handshake) {
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

}  // namespace ho::tcp
