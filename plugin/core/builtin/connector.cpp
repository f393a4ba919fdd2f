#include "core/builtin/connector.hpp"

#include <poll.h>
#include <spdlog/fmt/fmt.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/log.hpp"
#include "core/driver/process_text.hpp"
#include "os/clock.hpp"
#include "os/random_bytes.hpp"
#include "transport/tcp/link_handshake.hpp"

namespace ho::plugin {
namespace {

constexpr int64_t kFirstPauseNs = 5'000'000;
constexpr int64_t kLongestPauseNs = 500'000'000;
// Longer than a lost SYN takes to be sent again.
constexpr int64_t kBoundTimeoutNs = 2'500'000'000;

// The connect under way has ended, well or not.
bool answered(int fd) {
  pollfd waiting{fd, POLLOUT, 0};
  return ::poll(&waiting, 1, 0) > 0;
}

bool no_route(int errno_value) {
  return errno_value == ENETUNREACH || errno_value == EHOSTUNREACH;
}

}  // namespace

Connector::Connector(BuiltinDevice device, Handle handle, NetOptions options)
    : device_(std::move(device)),
      handle_(std::move(handle)),
      options_(std::move(options)),
      deadline_ns_(now_ns() + ns_of(options_.connect_timeout)) {}

Result<std::unique_ptr<Connector>> Connector::start(const BuiltinDevice& device,
                                                    const Handle& handle,
                                                    const JobKey& job,
                                                    const NetOptions& options) {
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  std::unique_ptr<Connector> made(new Connector(device, handle, options));
  HORING_ASSIGN(made->key_, connection_key(handle.secret, job));
  HORING_TRY(fill_random(std::as_writable_bytes(std::span(&made->connection_id_, 1))));
  const uint32_t streams = std::clamp<uint32_t>(options.streams, 1, kMaxStreams);
  for (uint32_t stream = 0; stream < streams; ++stream) {
    Dial dial;
    dial.stream = stream;
    dial.pause_ns = kFirstPauseNs;
    made->dials_.push_back(std::move(dial));
  }
  return made;
}

Result<std::unique_ptr<SendComm>> Connector::step() {
  const int64_t now = now_ns();
  bool ready = true;
  for (Dial& dial : dials_) {
    if (const Status status = advance(dial, now); !status.ok()) {
      return failed(status);
    }
    ready = ready && dial.state == State::kReady;
  }
  if (ready) {
    std::vector<std::unique_ptr<tcp::Socket>> sockets;
    for (Dial& dial : dials_) {
      sockets.push_back(std::move(dial.socket));
    }
    HORING_ASSIGN(
        ConnectionSet connections,
        make_connections(device_.properties.name, handle_.to_string(), std::move(sockets)));
    connections.pacer = options_.pacer;
    connections.pace_slot = device_.rail.pace_slot;
    return std::make_unique<SendComm>(std::move(connections));
  }
  if (now >= deadline_ns_) {
    return failed({StatusCode::kTimeout,
                   fmt::format("not within {} ms (HORING_CONNECT_TIMEOUT_MS): {}",
                               options_.connect_timeout.count(),
                               last_reason_)});
  }
  return std::unique_ptr<SendComm>();
}

Status Connector::advance(Dial& dial, int64_t now) {
  if (dial.state == State::kPausing && now >= dial.retry_at_ns) {
    HORING_TRY(open(dial, now));
  }
  if (dial.state == State::kConnecting) {
    HORING_TRY(finish_connect(dial, now));
  }
  if (dial.state == State::kHandshaking) {
    HORING_TRY(run_handshake(dial, now));
  }
  return {};
}

Status Connector::open(Dial& dial, int64_t now) {
  RailInterface rail = device_.rail;
  if (!dial.bound) {
    rail.name.clear();
  }
  HORING_ASSIGN(tcp::Dialled dialled, tcp::dial(rail, handle_.socket_address()));
  if (dialled.connect_errno != 0) {
    dial.bound = dial.bound && !no_route(dialled.connect_errno);
    retry(dial, now, system_error("connect", dialled.connect_errno).message());
    return {};
  }
  dial.socket = std::make_unique<tcp::Socket>(std::move(dialled.fd));
  dial.dialled_at_ns = now;
  dial.state = State::kConnecting;
  return {};
}

Status Connector::finish_connect(Dial& dial, int64_t now) {
  const int fd = dial.socket->fd.get();
  if (!answered(fd)) {
    // Hosts with several interfaces on one subnet may answer on another one, where a bound
    // connection does not hear it.
    if (dial.bound && !device_.rail.name.empty() && now > dial.dialled_at_ns + kBoundTimeoutNs) {
      dial.bound = false;
      retry(dial, now, "no answer on " + device_.rail.name);
    }
    return {};
  }
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
    error = errno;
  }
  if (error != 0) {
    dial.bound = dial.bound && !no_route(error);
    retry(dial, now, system_error("connect", error).message());
    return {};
  }
  dial.handshake = Handshake::client(key_, kHandshakePurpose, claim_of(dial));
  dial.state = State::kHandshaking;
  return {};
}

std::vector<std::byte> Connector::claim_of(const Dial& dial) const {
  if (options_.off) {
    return plugin::claim_of(*options_.off);
  }
  StreamClaim claim;
  claim.listener_id = handle_.listener_id;
  claim.connection_id = connection_id_;
  claim.stream = dial.stream;
  claim.stream_count = static_cast<uint32_t>(dials_.size());
  claim.who = process_text();
  return encode(claim);
}

Status Connector::run_handshake(Dial& dial, int64_t now) {
  // There is no epoll yet that would say so: each call tries.
  dial.socket->readable = true;
  dial.socket->writable = true;
  const Result<tcp::HandshakeState> advanced =
      tcp::advance_handshake(*dial.socket, *dial.handshake);
  if (!advanced.ok()) {
    // The listener says why nobody connected.
    tcp::flush_refusal(*dial.socket, *dial.handshake);
    return advanced.status();
  }
  const tcp::HandshakeState state = *advanced;
  if (state == tcp::HandshakeState::kLost) {
    retry(dial, now, "the peer closed the connection during the handshake");
  } else if (state == tcp::HandshakeState::kDone) {
    tcp::tune_data_socket(dial.socket->fd.get());
    dial.state = State::kReady;
  }
  return {};
}

void Connector::retry(Dial& dial, int64_t now, const std::string& reason) {
  last_reason_ = reason;
  dial.handshake.reset();
  dial.socket.reset();
  dial.state = State::kPausing;
  dial.retry_at_ns = now + dial.pause_ns;
  dial.pause_ns = std::min(2 * dial.pause_ns, kLongestPauseNs);
}

Status Connector::failed(const Status& why) const {
  const bool unreachable =
      why.code() == StatusCode::kTimeout || why.code() == StatusCode::kConnection;
  return {why.code(),
          fmt::format("device {}: cannot connect from {} to {}: {}{}",
                      device_.properties.name,
                      device_.rail.address,
                      handle_.to_string(),
                      why.message(),
                      unreachable ? "; check that the process there is running, that both "
                                    "interfaces are up and in one network (HORING_SOCKET_IFNAME "
                                    "chooses them), and that no firewall drops the port"
                                  : "")};
}

}  // namespace ho::plugin
