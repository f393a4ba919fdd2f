#include "connect/connector.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/log.hpp"

namespace ho {
namespace {

constexpr int64_t kFirstPauseNs = 5'000'000;
constexpr int64_t kLongestPauseNs = 500'000'000;
// Longer than a lost SYN takes to be sent again.
constexpr int64_t kAnswerNs = 2'500'000'000;
// Connections that the peer accepted and then dropped before the handshake; more than a restart
// explains.
constexpr uint32_t kMaxLostHandshakes = 3;

bool no_route(int error) {
  return error == ENETUNREACH || error == EHOSTUNREACH;
}

// What routers and interfaces report for a while, and what other connections may give back.
bool worth_retrying(int error) {
  switch (error) {
    case ECONNREFUSED:
    case ETIMEDOUT:
    case ECONNRESET:
    case EAGAIN:
    case ENETDOWN:
    case EADDRNOTAVAIL:
    case EHOSTDOWN:
    case ENONET:
    case ENOPROTOOPT:
    case ENOBUFS:
    case ENOMEM:
      return true;
    default:
      return no_route(error);
  }
}

}  // namespace

Connector::Connector(Options options)
    : options_(std::move(options)),
      barred_(options_.key->allows_address(options_.to.host())),
      pause_ns_(kFirstPauseNs) {}

Result<std::unique_ptr<Socket>> Connector::step(int64_t now_ns) {
  if (!barred_.ok() && !options_.asks_where_barred) {
    return barred_;
  }
  if (state_ == State::kPausing && now_ns >= retry_at_ns_) {
    HORING_TRY(open(now_ns));
  }
  if (state_ == State::kConnecting) {
    HORING_TRY(finish_connect(now_ns));
  }
  if (state_ == State::kHandshaking) {
    HORING_ASSIGN(const bool done, run_handshake(now_ns));
    if (done) {
      return std::move(socket_);
    }
  }
  if (now_ns >= options_.deadline_ns && !may_go_on(now_ns)) {
    return Status(StatusCode::kTimeout, last_reason_);
  }
  return std::unique_ptr<Socket>();
}

// After the deadline.
bool Connector::may_go_on(int64_t now_ns) const {
  const bool reached = lost_handshakes_ > 0 && lost_handshakes_ <= kMaxLostHandshakes;
  const bool answers = state_ != State::kConnecting || now_ns < dialled_at_ns_ + kAnswerNs;
  return options_.peer_may_be_busy && (state_ == State::kHandshaking || (reached && answers));
}

Status Connector::open(int64_t now_ns) {
  HORING_ASSIGN(Dialled dialled, dial(options_.from, options_.to));
  if (dialled.connect_errno != 0) {
    return connect_failed(dialled.connect_errno, now_ns);
  }
  socket_ = std::make_unique<Socket>(std::move(dialled.fd));
  dialled_at_ns_ = now_ns;
  was_taken_ = false;
  state_ = State::kConnecting;
  return options_.watch ? options_.watch(*socket_) : Status();
}

Status Connector::connect_failed(int error, int64_t now_ns) {
  was_refused_ |= error == ECONNREFUSED;
  const std::string reason = system_error("connect", error).message();
  if (!worth_retrying(error)) {
    return {StatusCode::kConnection, reason};
  }
  if (no_route(error)) {
    leave_interface(reason);
  }
  return retry(reason, now_ns);
}

// The connect under way has ended, well or not.
bool Connector::has_result() const {
  pollfd waiting = waits_for();
  return options_.watch ? socket_->writable || socket_->hung_up : ::poll(&waiting, 1, 0) > 0;
}

Status Connector::finish_connect(int64_t now_ns) {
  if (!has_result()) {
    if (options_.from.name.empty() || now_ns < dialled_at_ns_ + kAnswerNs) {
      return {};
    }
    const std::string reason = "no answer on " + options_.from.name;
    leave_interface(reason);
    return retry(reason, now_ns);
  }
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket_->fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
    error = errno;
  }
  was_taken_ = error == 0 || error == ECONNRESET;  // where nobody listens it is ECONNREFUSED
  if (error != 0) {
    return connect_failed(error, now_ns);
  }
  handshake_ = Handshake::client(options_.key, options_.purpose, options_.claim());
  socket_->readable = true;
  state_ = State::kHandshaking;
  last_reason_ = "it took the connection and did not answer";
  return {};
}

void Connector::leave_interface(const std::string& reason) {
  if (options_.from.name.empty() || options_.keeps_interface) {
    return;
  }
  log_warn(
      "{}: {} from {}; trying without binding to the interface. If these hosts have several "
      "interfaces on one subnet, sysctl net.ipv4.conf.all.arp_ignore=1 and "
      "net.ipv4.conf.all.arp_announce=2 on all of them let each NIC carry its own rail",
      options_.name,
      reason,
      options_.to.host());
  options_.from.name.clear();
}

Result<bool> Connector::run_handshake(int64_t now_ns) {
  if (!options_.watch) {
    socket_->readable = true;
    socket_->writable = true;
  }
  const Result<HandshakeState> state = advance_handshake(*socket_, *handshake_, !barred_.ok());
  if (!state.ok()) {
    flush_refusal(*socket_, *handshake_);  // so that the peer learns why, too
    return state.status();
  }
  if (*state == HandshakeState::kAnswered) {
    return barred_;
  }
  if (*state == HandshakeState::kLost) {
    ++lost_handshakes_;
    HORING_TRY(retry("the peer closed the connection during the handshake", now_ns));
  }
  return *state == HandshakeState::kDone;
}

Status Connector::retry(std::string reason, int64_t now_ns) {
  last_reason_ = std::move(reason);
  handshake_.reset();
  socket_.reset();
  if (options_.once) {
    return {StatusCode::kConnection, last_reason_};
  }
  log_trace("{}: {}; trying again", options_.name, last_reason_);
  state_ = State::kPausing;
  retry_at_ns_ = now_ns + pause_ns_;
  pause_ns_ = std::min(2 * pause_ns_, kLongestPauseNs);
  return {};
}

int64_t Connector::next_deadline_ns() const {
  if (state_ == State::kPausing) {
    return retry_at_ns_;
  }
  if (state_ == State::kHandshaking) {
    return options_.peer_may_be_busy ? kNeverNs : options_.deadline_ns;
  }
  const int64_t answer_due = dialled_at_ns_ + kAnswerNs;
  const int64_t next = options_.from.name.empty() ? options_.deadline_ns
                                                  : std::min(options_.deadline_ns, answer_due);
  return options_.peer_may_be_busy && lost_handshakes_ > 0 ? std::max(next, answer_due) : next;
}

pollfd Connector::waits_for() const {
  const bool writes = state_ == State::kConnecting || !handshake_->output().empty();
  return {socket_->fd.get(), static_cast<short>(writes ? POLLOUT : POLLIN), 0};
}

}  // namespace ho
