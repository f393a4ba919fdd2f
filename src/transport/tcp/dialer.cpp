#include "transport/tcp/dialer.hpp"

#include <algorithm>
#include <cerrno>

#include "base/log.hpp"
#include "os/clock.hpp"
#include "transport/tcp/address.hpp"
#include "transport/tcp/link_handshake.hpp"

namespace ho::tcp {
namespace {

constexpr int64_t kFirstPauseNs = 5'000'000;
constexpr int64_t kLongestPauseNs = 500'000'000;
// Longer than a lost SYN takes to be sent again.
constexpr int64_t kBoundTimeoutNs = 2'500'000'000;
// Connections that the peer accepted and then dropped before the handshake; more than a restart
// explains.
constexpr uint32_t kMaxLostHandshakes = 3;

bool worth_retrying(int errno_value) {
  return errno_value == ECONNREFUSED || errno_value == ETIMEDOUT || errno_value == EHOSTUNREACH ||
         errno_value == ENETUNREACH || errno_value == ECONNRESET || errno_value == EAGAIN;
}

}  // namespace

Dialer::Dialer(Context& context, const LinkKey& key, uint8_t stream, TcpLink* owner)
    : context_(context),
      key_(key),
      stream_(stream),
      owner_(owner),
      pause_ns_(kFirstPauseNs),
      deadline_ns_(now_ns() + ns_of(context.options.connect_timeout)) {}

Result<std::unique_ptr<Socket>> Dialer::step() {
  const int64_t now = now_ns();
  if (state_ == State::kPausing) {
    if (now < retry_at_ns_) {
      context_.poller->wake_at(retry_at_ns_);
      return std::unique_ptr<Socket>();
    }
    HORING_TRY(start());
  }
  if (state_ == State::kConnecting) {
    HORING_TRY(finish_connect(now));
  }
  if (state_ == State::kHandshaking) {
    HORING_TRY(run_handshake());
  }
  return ready_ ? std::move(socket_) : std::unique_ptr<Socket>();
}

Status Dialer::start() {
  const TcpEndpoint& peer = context_.peers.at(key_.peer.at());
  const std::string& host = peer.rail_addresses.at(key_.rail.at());
  HORING_TRY(context_.options.key->allows_address(host));
  HORING_ASSIGN(const Address to, parse_address(host, peer.port));
  RailInterface rail = context_.options.rails.at(key_.rail.at());
  if (!bound_) {
    rail.name.clear();
  }
  dialled_at_ns_ = now_ns();
  HORING_ASSIGN(Dialled dialled, dial(rail, to));
  if (dialled.connect_errno != 0) {
    const std::string reason = system_error("connect", dialled.connect_errno).message();
    return worth_retrying(dialled.connect_errno) ? retry(reason) : unreachable(reason);
  }
  socket_ = std::make_unique<Socket>(std::move(dialled.fd));
  socket_->owner = owner_;
  HORING_TRY(context_.poller->add(*socket_));
  state_ = State::kConnecting;
  return {};
}

Status Dialer::finish_connect(int64_t now) {
  if (!socket_->writable && !socket_->hung_up) {
    return await_answer(now);
  }
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket_->fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
    error = errno;
  }
  if (error != 0) {
    const std::string reason = system_error("connect", error).message();
    return worth_retrying(error) ? retry(reason) : unreachable(reason);
  }
  LinkClaim claim;
  claim.from = context_.options.self;
  claim.to = key_.peer;
  claim.rail = key_.rail;
  claim.communicator = key_.communicator;
  claim.channel = key_.channel;
  claim.stream = stream_;
  claim.stream_count = static_cast<uint8_t>(context_.options.streams);
  claim.job_id = context_.options.job_id;
  handshake_ = Handshake::client(context_.options.key, "data", encode(claim));
  socket_->readable = true;
  state_ = State::kHandshaking;
  return {};
}

Status Dialer::await_answer(int64_t now) {
  if (now >= deadline_ns_) {
    return unreachable("no answer");
  }
  const RailInterface& rail = context_.options.rails.at(key_.rail.at());
  const int64_t bound_until_ns = dialled_at_ns_ + kBoundTimeoutNs;
  if (!bound_ || rail.name.empty() || now < bound_until_ns) {
    context_.poller->wake_at(bound_ ? std::min(deadline_ns_, bound_until_ns) : deadline_ns_);
    return {};
  }
  bound_ = false;
  log_warn(
      "rank {}, rail {}: no answer on {} from {}; trying without binding to the interface. If "
      "these "
      "hosts have several interfaces on one subnet, sysctl net.ipv4.conf.all.arp_ignore=1 and "
      "net.ipv4.conf.all.arp_announce=2 on all of them let each NIC carry its own rail",
      key_.peer.value(),
      key_.rail.value(),
      rail.name,
      context_.peers.at(key_.peer.at()).rail_addresses.at(key_.rail.at()));
  return retry("no answer on " + rail.name);
}

Status Dialer::run_handshake() {
  HORING_ASSIGN(const HandshakeState state, advance_handshake(*socket_, *handshake_));
  if (state == HandshakeState::kLost) {
    ++lost_handshakes_;
    return retry("the peer closed the connection during the handshake");
  }
  if (state == HandshakeState::kDone) {
    tune_data_socket(socket_->fd.get());
    ready_ = true;
  }
  return {};
}

Status Dialer::retry(const std::string& reason) {
  handshake_.reset();
  socket_.reset();
  const int64_t now = now_ns();
  const bool reached = lost_handshakes_ > 0 && lost_handshakes_ <= kMaxLostHandshakes;
  if (now >= deadline_ns_ && !reached) {
    return unreachable(reason);
  }
  log_trace("rank {} rail {}: {}; trying again", key_.peer.value(), key_.rail.value(), reason);
  state_ = State::kPausing;
  retry_at_ns_ = now + pause_ns_;
  pause_ns_ = std::min(2 * pause_ns_, kLongestPauseNs);
  context_.poller->wake_at(retry_at_ns_);
  return {};
}

Status Dialer::unreachable(const std::string& reason) const {
  const TcpEndpoint& peer = context_.peers.at(key_.peer.at());
  const RailInterface& rail = context_.options.rails.at(key_.rail.at());
  const std::string host = peer.rail_addresses.at(key_.rail.at());
  return {StatusCode::kConnection,
          "cannot connect from " + rail.address +
              (rail.name.empty() ? "" : " (" + rail.name + ")") + " to " +
              host_and_port(host, peer.port) + " within " +
              std::to_string(context_.options.connect_timeout.count()) + " ms: " + reason +
              "; check that rank " + std::to_string(key_.peer.value()) +
              " is running, that both ends of rail " + std::to_string(key_.rail.value()) +
              " are up and in one network, and that no firewall drops its port"};
}

}  // namespace ho::tcp
