#include "core/builtin/listener.hpp"

#include <spdlog/fmt/fmt.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "auth/printable.hpp"
#include "base/log.hpp"
#include "core/driver/process_text.hpp"
#include "os/clock.hpp"
#include "os/random_bytes.hpp"
#include "os/socket.hpp"
#include "transport/tcp/link_handshake.hpp"

namespace ho::plugin {
namespace {

constexpr int kBacklog = 1024;
// Connections looked at in one call.
constexpr size_t kMaxAccepts = 64;
// A caller that looks less often than that is not polling: what waits for it is not to blame.
constexpr int64_t kPauseNs = 500'000'000;

// With the name that it gives itself, proven or not.
std::string described(const std::string& from, const Handshake& handshake) {
  const auto claim = decode_stream_claim(handshake.unproven_claim());
  return claim.ok() && !claim->who.empty() ? from + " (" + claim->who + ")" : from;
}

bool whole(const std::vector<std::unique_ptr<tcp::Socket>>& sockets) {
  return std::all_of(
      sockets.begin(), sockets.end(), [](const auto& socket) { return socket != nullptr; });
}

}  // namespace

Result<std::unique_ptr<Listener>> Listener::open(const BuiltinDevice& device,
                                                 const JobKey& job,
                                                 const NetOptions& options) {
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  std::unique_ptr<Listener> made(new Listener(device, options));
  HORING_ASSIGN(const SocketAddress address, SocketAddress::numeric(device.rail.address, 0));
  HORING_ASSIGN(made->fd_, listen_on(address, kBacklog));
  HORING_ASSIGN(const SocketAddress bound, ho::local_address(made->fd_.get()));
  HORING_ASSIGN(made->handle_, handle_of(bound));
  made->handle_.carrier = options.carrier;
  made->handle_.who = rank_on_host_text();
  HORING_TRY(fill_random(made->handle_.secret));
  HORING_TRY(fill_random(std::as_writable_bytes(std::span(&made->handle_.listener_id, 1))));
  HORING_ASSIGN(made->key_, connection_key(made->handle_.secret, job));
  return made;
}

Result<std::unique_ptr<RecvComm>> Listener::accept() {
  const int64_t now = now_ns();
  if (deadline_ns_ == 0) {
    deadline_ns_ = now + ns_of(options_.connect_timeout);
  }
  forgive_pause(now);
  admit_all(now);
  for (auto pending = pending_.begin(); pending != pending_.end();) {
    pending = advance(*pending, now) ? pending_.erase(pending) : std::next(pending);
  }
  std::erase_if(halves_,
                [&](const Half& half) { return now >= half.deadline_ns && !whole(half.sockets); });
  HORING_TRY(std::exchange(off_, {}));
  HORING_ASSIGN(auto comm, take_whole());
  if (comm != nullptr) {
    deadline_ns_ = 0;
    refusals_.clear();
    other_refusals_ = 0;
  } else if (now >= deadline_ns_) {
    return nobody_came();
  }
  return comm;
}

void Listener::forgive_pause(int64_t now) {
  const int64_t pause = last_call_ns_ == 0 ? 0 : now - last_call_ns_;
  last_call_ns_ = now;
  for (PendingHandshake& pending : pending_) {
    pending.deadline_ns += pause > kPauseNs ? pause : 0;
  }
}

void Listener::admit_all(int64_t now) {
  for (size_t count = 0; count < kMaxAccepts; ++count) {
    Result<std::optional<Accepted>> accepted = accept_from(fd_.get());
    if (!accepted.ok()) {
      // Waits in the queue, and is tried again.
      if (const auto left_out = full_said_.take(now)) {
        log_warn("device {}: {}; is the limit of open files (ulimit -n) too low?{}",
                 device_.properties.name,
                 accepted.status().message(),
                 LogQuota::note(*left_out));
      }
      return;
    }
    if (!accepted->has_value()) {
      return;
    }
    if (pending_.size() >= kMaxHandshakes) {
      log_debug("{} makes room: {} connections are in their handshake at once",
                pending_.front().from,
                kMaxHandshakes);
      pending_.pop_front();
    }
    PendingHandshake pending;
    pending.from = (*accepted)->peer.to_string();
    pending.socket = std::make_unique<tcp::Socket>(std::move((*accepted)->fd));
    pending.handshake = Handshake::server(key_, kHandshakePurpose);
    pending.deadline_ns = now + ns_of(options_.handshake_timeout);
    pending_.push_back(std::move(pending));
  }
}

bool Listener::advance(PendingHandshake& pending, int64_t now) {
  // There is no epoll that would say so: each call tries.
  pending.socket->readable = true;
  pending.socket->writable = true;
  Result<tcp::HandshakeState> state = tcp::advance_handshake(*pending.socket, *pending.handshake);
  if (state.ok() && *state == tcp::HandshakeState::kDecide) {
    if (const Status claim = check(pending); claim.ok()) {
      pending.handshake->accept();
      state = tcp::advance_handshake(*pending.socket, *pending.handshake);
    } else {
      pending.handshake->refuse(claim.message());
      state = claim;
    }
  }
  if (!state.ok()) {
    note_refusal(pending, state.status().message());
    if (const auto left_out = refused_said_.take(now)) {
      log_warn("device {}: refused a connection from {}: {}{}",
               device_.properties.name,
               described(pending.from, *pending.handshake),
               state.status().message(),
               LogQuota::note(*left_out));
    }
    tcp::flush_refusal(*pending.socket, *pending.handshake);
    return true;
  }
  if (*state == tcp::HandshakeState::kDone) {
    deliver(pending, now);
    return true;
  }
  if (*state == tcp::HandshakeState::kLost) {
    note_refusal(pending, "it went away before its handshake was over");
    return true;
  }
  if (now >= pending.deadline_ns) {
    note_refusal(pending,
                 fmt::format("it did not finish its handshake within {} ms",
                             options_.handshake_timeout.count()));
    return true;
  }
  return false;
}

void Listener::note_refusal(const PendingHandshake& pending, const std::string& why) {
  auto refusal = std::find_if(
      refusals_.begin(), refusals_.end(), [&why](const Refusal& each) { return each.why == why; });
  if (refusal == refusals_.end()) {
    if (refusals_.size() == kMaxReasons) {
      ++other_refusals_;
      return;
    }
    refusal = refusals_.insert(refusals_.end(), Refusal{why, "", 0});
  }
  refusal->from = described(pending.from, *pending.handshake);
  ++refusal->count;
}

std::string Listener::refusals_text() const {
  if (refusals_.empty()) {
    return "nobody came at all: look at the logs of the other ranks, and check that no firewall "
           "drops the port";
  }
  uint64_t all = other_refusals_;
  std::string reasons;
  for (const Refusal& refusal : refusals_) {
    all += refusal.count;
    reasons +=
        fmt::format("{}{}{}: {}",
                    reasons.empty() ? "" : "; ",
                    refusal.count == 1 ? "" : fmt::format("{} times, at last ", refusal.count),
                    refusal.from,
                    refusal.why);
  }
  if (other_refusals_ > 0) {
    reasons += fmt::format("; {} for other reasons", other_refusals_);
  }
  return fmt::format("{} came and {} sent away: {}",
                     all == 1 ? "1 connection" : fmt::format("{} connections", all),
                     all == 1 ? "was" : "were",
                     reasons);
}

Status Listener::check(const PendingHandshake& pending) {
  // Proven: whoever says it has this listener's handle.
  if (Status off = check_not_off(pending.handshake->claim()); !off.ok()) {
    off_ = off;
    return off;
  }
  HORING_ASSIGN(const StreamClaim claim, decode_stream_claim(pending.handshake->claim()));
  if (claim.listener_id != handle_.listener_id) {
    return {StatusCode::kMismatch, "the connection is for a listener that was here before"};
  }
  const auto half = std::find_if(halves_.begin(), halves_.end(), [&](const Half& each) {
    return each.connection_id == claim.connection_id;
  });
  if (half == halves_.end()) {
    return halves_.size() < kMaxHalves
               ? Status()
               : Status(StatusCode::kMismatch,
                        "too many connections begin here at once; try again later");
  }
  if (half->sockets.size() != claim.stream_count || half->sockets[claim.stream] != nullptr) {
    return {StatusCode::kMismatch, "that stream of the connection is here already"};
  }
  return {};
}

void Listener::deliver(PendingHandshake& pending, int64_t now) {
  const Result<StreamClaim> claim = decode_stream_claim(pending.handshake->claim());
  auto half = std::find_if(halves_.begin(), halves_.end(), [&](const Half& each) {
    return each.connection_id == claim->connection_id;
  });
  if (half == halves_.end()) {
    half = halves_.insert(halves_.end(), Half{});
    half->connection_id = claim->connection_id;
    half->sockets.resize(claim->stream_count);
    half->deadline_ns = now + ns_of(options_.connect_timeout);
  }
  // Two of one name may both have been let in while the word of it was on its way.
  if (half->sockets.size() != claim->stream_count || half->sockets[claim->stream] != nullptr) {
    return;
  }
  const int fd = pending.socket->fd.get();
  tcp::bind_accepted(fd, device_.rail);
  tcp::set_traffic_class(fd, device_.rail.traffic_class);
  tcp::tune_data_socket(fd);
  if (claim->stream == 0) {
    half->from = pending.from + " (" + claim->who + ")";
  }
  half->sockets[claim->stream] = std::move(pending.socket);
}

Result<std::unique_ptr<RecvComm>> Listener::take_whole() {
  const auto half = std::find_if(
      halves_.begin(), halves_.end(), [](const Half& each) { return whole(each.sockets); });
  if (half == halves_.end()) {
    return std::unique_ptr<RecvComm>();
  }
  Half taken = std::move(*half);
  halves_.erase(half);
  HORING_ASSIGN(
      ConnectionSet connections,
      make_connections(device_.properties.name, std::move(taken.from), std::move(taken.sockets)));
  return std::make_unique<RecvComm>(std::move(connections));
}

Status Listener::nobody_came() const {
  return {StatusCode::kTimeout,
          fmt::format("device {}: nobody connected to {} within {} ms "
                      "(HORING_CONNECT_TIMEOUT_MS); {}",
                      device_.properties.name,
                      handle_.to_string(),
                      options_.connect_timeout.count(),
                      refusals_text())};
}

}  // namespace ho::plugin
