#include "transport/tcp/acceptor.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/log.hpp"
#include "os/clock.hpp"
#include "transport/tcp/address.hpp"

namespace ho::tcp {
namespace {

// To find a port number that is free in both families.
constexpr int kAttempts = 16;
// In which descriptors may come free, as other links of this process close.
constexpr int64_t kStuckNs = 3'000'000'000;

}  // namespace

Result<std::unique_ptr<Acceptor>> Acceptor::open(Context& context) {
  std::unique_ptr<Acceptor> acceptor(new Acceptor(context));  // NOLINT: private constructor
  HORING_TRY(acceptor->listen());
  return acceptor;
}

Result<std::vector<Fd>> Acceptor::open_pair(bool four, bool six) {
  Status last;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::vector<Fd> sockets(1);
    HORING_ASSIGN(sockets[0], open_listener(four ? AF_INET : AF_INET6, 0));
    HORING_ASSIGN(const Address bound, local_address(sockets[0].get()));
    port_ = port_of(bound);
    if (!four || !six) {
      return sockets;
    }
    Result<Fd> second = open_listener(AF_INET6, port_);
    if (second.ok()) {
      sockets.push_back(*std::move(second));
      return sockets;
    }
    last = second.status();
  }
  return last.with_context("no port is free for both IPv4 and IPv6");
}

// One socket per address family in use, on one port number.
Status Acceptor::listen() {
  bool four = false;
  bool six = false;
  for (const RailInterface& rail : context_.options.rails) {
    HORING_ASSIGN(const Address address, parse_address(rail.address, 0));
    (address.family() == AF_INET6 ? six : four) = true;
  }
  HORING_ASSIGN(std::vector<Fd> sockets, open_pair(four, six));
  for (Fd& socket : sockets) {
    listeners_.push_back(std::make_unique<Socket>(std::move(socket)));
    HORING_TRY(context_.poller->add(*listeners_.back()));
  }
  return {};
}

Status Acceptor::progress(const Decide& decide, const Deliver& deliver) {
  for (const auto& listener : listeners_) {
    HORING_TRY(accept_all(*listener));
  }
  for (auto pending = pending_.begin(); pending != pending_.end();) {
    pending = advance(*pending, decide, deliver) == Outcome::kKeep ? std::next(pending)
                                                                   : pending_.erase(pending);
  }
  return {};
}

void Acceptor::warn(std::string_view text) {
  if (const auto left_out = warnings_.take(now_ns())) {
    log_warn("{}{}", text, LogQuota::note(*left_out));
  }
}

// The connection waits in the backlog, and is tried again in the next turn.
Status Acceptor::out_of_descriptors(int why) {
  const int64_t now = now_ns();
  const std::string text = fmt::format(
      "accept of a connection to port {}: {}", port_, system_error("accept4", why).message());
  warn(text);
  stuck_until_ns_ = stuck_until_ns_ == 0 ? now + kStuckNs : stuck_until_ns_;
  context_.poller->wake_at(stuck_until_ns_);
  return now < stuck_until_ns_
             ? Status()
             : Status(StatusCode::kSystem, text + "; each link to another node takes descriptors");
}

Status Acceptor::accept_all(Socket& listener) {
  while (listener.readable) {
    Fd connection(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (connection.valid()) {
      stuck_until_ns_ = 0;
      admit(std::move(connection));
    } else if (errno == EAGAIN) {
      listener.readable = false;
      stuck_until_ns_ = 0;  // nobody waits any more: the next shortage has its own time
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      return out_of_descriptors(errno);
    }
    // Anything else concerns a connection that was gone before it was accepted.
  }
  return {};
}

void Acceptor::admit(Fd connection) {
  const Result<Address> peer = peer_address(connection.get());
  if (!peer.ok()) {
    return;
  }
  const std::string from = to_text(*peer);
  if (const Status allowed = context_.options.key->allows_address(from); !allowed.ok()) {
    warn(fmt::format("refused a connection from {}: {}", from, allowed.message()));
    return;
  }
  if (pending_.size() >= kMaxHandshakes) {
    warn(fmt::format("refused the connection of {}: {} connections are in their handshake at once",
                     pending_.front().from,
                     kMaxHandshakes));
    pending_.pop_front();
  }
  PendingHandshake pending;
  pending.socket = std::make_unique<Socket>(std::move(connection));
  pending.handshake = Handshake::server(context_.options.key, "data");
  pending.from = from;
  pending.deadline_ns = now_ns() + ns_of(context_.options.connect_timeout);
  if (!context_.poller->add(*pending.socket).ok()) {
    return;
  }
  // What came with the connection was there before the first edge.
  pending.socket->readable = true;
  pending.socket->writable = true;
  pending_.push_back(std::move(pending));
}

Acceptor::Outcome Acceptor::advance(PendingHandshake& pending,
                                    const Decide& decide,
                                    const Deliver& deliver) {
  Result<HandshakeState> state = advance_handshake(*pending.socket, *pending.handshake);
  if (state.ok() && *state == HandshakeState::kDecide) {
    if (const Status claim = check(pending, decide); claim.ok()) {
      pending.handshake->accept();
      state = advance_handshake(*pending.socket, *pending.handshake);
    } else {
      pending.handshake->refuse(claim.message());
      state = claim;
    }
  }
  if (!state.ok()) {
    warn(fmt::format("refused a connection from {}: {}", pending.from, state.status().message()));
    flush_refusal(*pending.socket, *pending.handshake);
    return Outcome::kDrop;
  }
  if (*state == HandshakeState::kDone) {
    const Result<LinkClaim> claim = decode_claim(pending.handshake->claim());
    const int fd = pending.socket->fd.get();
    bind_accepted(fd, context_.options.rails.at(claim->rail.at()));
    tune_data_socket(fd);
    deliver(*claim, std::move(pending.socket));
    return Outcome::kDrop;
  }
  if (*state == HandshakeState::kLost) {
    log_debug("a connection from {} went away during the handshake", pending.from);
    return Outcome::kDrop;
  }
  if (now_ns() >= pending.deadline_ns) {
    warn(fmt::format("dropped a connection from {} that did not finish its handshake in time",
                     pending.from));
    return Outcome::kDrop;
  }
  context_.poller->wake_at(pending.deadline_ns);
  return Outcome::kKeep;
}

Status Acceptor::check(const PendingHandshake& pending, const Decide& decide) const {
  HORING_ASSIGN(const LinkClaim claim, decode_claim(pending.handshake->claim()));
  HORING_TRY(check_claim(claim, context_.options));
  const RailInterface& rail = context_.options.rails.at(claim.rail.at());
  HORING_ASSIGN(const Address expected, parse_address(rail.address, 0));
  HORING_ASSIGN(const Address local, local_address(pending.socket->fd.get()));
  if (to_text(expected) != to_text(local)) {
    return {StatusCode::kMismatch,
            "the connection came to " + to_text(local) + ", but rail " +
                std::to_string(claim.rail.value()) + " of rank " +
                std::to_string(context_.options.self.value()) + " is " + rail.address};
  }
  return decide(claim);
}

}  // namespace ho::tcp
