#include "bootstrap/control/sessions.hpp"

#include <spdlog/fmt/fmt.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "bootstrap/control/redial.hpp"

namespace ho {
namespace {

// In their handshake at once: an eighth of what this process may have open, and not more than are
// looked at in a millisecond. Who finds no room waits for it, a second at most (Acceptor).
size_t max_handshakes_here() {
  constexpr size_t kMinHandshakes = 64;
  constexpr size_t kMaxHandshakes = 1024;
  rlimit files{};
  const bool known = ::getrlimit(RLIMIT_NOFILE, &files) == 0;
  return known ? std::clamp<size_t>(files.rlim_cur / 8, kMinHandshakes, kMaxHandshakes)
               : kMinHandshakes;
}

}  // namespace

Result<std::unique_ptr<Sessions>> Sessions::open(Setup setup,
                                                 uint32_t own,
                                                 int epoll,
                                                 PeerConnections& connections) {
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  std::unique_ptr<Sessions> sessions(new Sessions(std::move(setup), epoll, connections));
  HORING_TRY(sessions->listen(own));
  return sessions;
}

Status Sessions::listen(uint32_t own) {
  HORING_ASSIGN(ListeningAt here, ListeningAt::open());
  Acceptor::Options options;
  options.name = "control plane";
  options.purpose = Redial::kPurpose;
  options.key = setup_.key;
  options.max_handshakes = max_handshakes_here();
  options.on_shortage = "a control connection that takes a lost one's place needs one";
  options.watch = [this](Socket& socket) {
    return PeerConnections::watch(
        epoll_, EPOLL_CTL_ADD, socket.fd.get(), setup_.epoll_token, EPOLLET);
  };
  options.judge = [this](const Acceptor::Arrival& arrival) -> Status {
    HORING_ASSIGN(const auto claim, wire::decode<wire::ResumeClaim>(arrival.claim));
    return judge(claim);
  };
  options.deliver = [this](const Acceptor::Arrival& arrival, std::unique_ptr<Socket> socket) {
    ::epoll_ctl(epoll_, EPOLL_CTL_DEL, arrival.fd, nullptr);
    enter(std::move(socket->fd), *wire::decode<wire::ResumeClaim>(arrival.claim));
  };
  own_ = std::move(here.own);
  listener_close_on_fork_.set(here.listener.get());
  std::vector<Fd> listeners;
  listeners.push_back(std::move(here.listener));
  HORING_ASSIGN(acceptor_, Acceptor::open(std::move(listeners), std::move(options)));
  const auto body = ControlConnection::body_of(here.addresses);
  for (uint32_t rank = 0; rank < connections_.world_size(); ++rank) {
    if (rank != own) {
      connections_.send(rank, wire::Type::kAddresses, 0, body);
    }
  }
  return {};
}

void Sessions::set_addresses(uint32_t rank, const wire::Addresses& addresses) {
  Peer& peer = peers_[rank];
  const int fd = connections_.of(rank).fd();
  if (const auto seen = peer_address(fd); seen.ok()) {
    peer.seen = *seen;
    peer.hosts = addresses.hosts;
    peer.paths.emplace(setup_.options, setup_.names[rank], addresses, own_);
    ask_often(fd);
  }
}

bool Sessions::lost(uint32_t rank, const std::string& why) {
  Peer& peer = peers_[rank];
  if (!peer.paths) {
    return false;
  }
  connections_.lose(rank);
  if (peer.why.empty()) {
    peer.why = why;
  }
  const int64_t at_ns = now_ns();
  peer.paths->begin(peer.seen, at_ns, at_ns);
  searching_ = true;
  return true;
}

bool Sessions::someone_is_away() {
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    if (!peers_[rank].paths || !connections_.has(rank)) {
      continue;
    }
    const auto details = tcp::look_at_connection(connections_.of(rank).fd());
    if (!connections_.of(rank).is_open() || (details && tcp::unanswered(*details))) {
      return true;
    }
  }
  return false;
}

Status Sessions::judge(const wire::ResumeClaim& claim) const {
  if (claim.job_id != setup_.job_id || claim.rank >= peers_.size()) {
    return {StatusCode::kMismatch, "this is the control plane of another job"};
  }
  if (claim.attempt <= peers_[claim.rank].attempt) {
    return {StatusCode::kConnection, "a later connection has taken this one's place"};
  }
  return {};
}

Status Sessions::is_of_this_job(const wire::ResumeClaim& claim) const {
  if (peers_[claim.rank].paths && connections_.has(claim.rank)) {
    return {};
  }
  return {StatusCode::kPeerLost,
          fmt::format("rank {} has left this job, or was given up: no path led to it for too long",
                      claim.rank)};
}

void Sessions::enter(Fd fd, const wire::ResumeClaim& claim) {
  Peer& peer = peers_[claim.rank];
  if (!judge(claim).ok()) {
    return;  // two may have been judged before the first came here
  }
  if (const Status over = is_of_this_job(claim); !over.ok()) {
    ControlConnection::refuse(std::move(fd), over);
    return;
  }
  peer.attempt = claim.attempt;
  peer.watch = {};
  peer.why.clear();
  peer.paths->end();
  if (const auto seen = peer_address(fd.get()); seen.ok()) {
    peer.seen = *seen;
  }
  (void)set_no_delay(fd.get());
  ask_often(fd.get());
  if (const Status status = connections_.resume(claim.rank, std::move(fd), claim.received);
      !status.ok()) {
    log_error("control plane: {} cannot go on: {}", setup_.names[claim.rank], status.message());
    (void)lost(claim.rank, status.message());
  }
}

void Sessions::look(uint32_t rank, int64_t now_ns) {
  Peer& peer = peers_[rank];
  const ControlConnection& connection = connections_.of(rank);
  const auto details =
      connection.is_open() ? tcp::look_at_connection(connection.fd()) : std::nullopt;
  if (!details) {
    return;
  }
  const Status silent = peer.watch.check(*details, setup_.options.silence);
  if (!silent.ok()) {
    const int64_t answered_ns = now_ns - int64_t{details->tcpi_last_ack_recv} * 1'000'000;
    peer.paths->begin(peer.seen, std::max(answered_ns, runs_since_ns_), now_ns);
  } else if (peer.paths->begun() && !tcp::unanswered(*details)) {
    peer.paths->end();  // the path has returned before the rank has left it
  }
}

bool Sessions::of_one_host(const Peer& one, const Peer& other) {
  const auto at_its_own = [&](const SocketAddress& seen) {
    return seen.size_bytes() > 0 && std::ranges::find(one.hosts, seen.host()) != one.hosts.end();
  };
  return one.hosts == other.hosts && at_its_own(one.seen) && at_its_own(other.seen);
}

void Sessions::ask_others_of_its_host(uint32_t rank) {
  for (uint32_t other = 0; other < peers_.size(); ++other) {
    if (other != rank && peers_[other].paths && connections_.has(other) &&
        connections_.of(other).is_open() && !peers_[other].paths->begun() &&
        of_one_host(peers_[rank], peers_[other])) {
      peers_[rank].paths->proves_host(peers_[other].seen);
    }
  }
}

std::optional<Sessions::Gone> Sessions::search(uint32_t rank, int64_t now_ns) {
  Peer& peer = peers_[rank];
  if (peer.paths->refused()) {
    ask_others_of_its_host(rank);
  }
  switch (peer.paths->step(now_ns)) {
    case PeerPaths::Found::kNobodyListens:
      return Gone{rank, {}};
    case PeerPaths::Found::kTooLate:
      return Gone{rank,
                  {StatusCode::kPeerLost, " is gone: its host " + peer.paths->how_silent(now_ns)}};
    default:
      return {};
  }
}

std::vector<Sessions::Gone> Sessions::step(Deadline now) {
  const int64_t at_ns = ns_of(now);
  acceptor_->step(at_ns);
  const bool looks = now >= look_due_;
  if (looks) {
    const auto every = PeerPaths::look_every(setup_.options);
    look_due_ = now + every;
    runs_since_ns_ = pauses_.paused_ns(at_ns, ns_of(every)) > 0 ? at_ns : runs_since_ns_;
  }
  std::vector<Gone> gone;
  if (!looks && !searching_) {
    return gone;
  }
  searching_ = false;
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    if (!peers_[rank].paths || !connections_.has(rank)) {
      continue;
    }
    if (looks) {
      look(rank, at_ns);
    }
    if (peers_[rank].paths->begun()) {
      searching_ = true;
      if (auto one = search(rank, at_ns)) {
        gone.push_back(*std::move(one));
      }
    }
  }
  return gone;
}

Deadline Sessions::next_deadline() const {
  const Deadline accepts{std::chrono::nanoseconds(acceptor_->next_deadline_ns())};
  const Deadline next = searching_ ? Clock::now() + PeerPaths::kStep : look_due_;
  return std::min(accepts, next);
}

}  // namespace ho
