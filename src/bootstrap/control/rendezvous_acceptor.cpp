#include "bootstrap/control/rendezvous_acceptor.hpp"

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"

namespace ho {

RendezvousAcceptor::RendezvousAcceptor(Setup setup, int epoll, PeerConnections& connections)
    : setup_(std::move(setup)),
      epoll_(epoll),
      connections_(connections),
      ranks_({.world_size = setup_.world_size,
              .own = setup_.own,
              .address = setup_.address,
              .deadline = setup_.deadline}) {}

Status RendezvousAcceptor::open() {
  if (!setup_.listeners.empty()) {
    spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  Acceptor::Options options;
  options.name = "rendezvous";
  options.purpose = "control";
  options.key = setup_.key;
  options.on_shortage = "rank 0 needs a file descriptor per rank beside its own";
  options.refusals_at = LogLevel::kInfo;
  options.watch = [this](Socket& socket) {
    // Edges: who cannot be let in for want of descriptors would be reported again and again. A
    // handshake's few hundred bytes always fit a fresh socket's buffer: no need for EPOLLOUT.
    return PeerConnections::watch(epoll_, EPOLL_CTL_ADD, socket.fd.get(), kToken, EPOLLET);
  };
  options.judge = [this](const Acceptor::Arrival& arrival) -> Status {
    HORING_ASSIGN(const wire::RankClaim who, wire::decode<wire::RankClaim>(arrival.claim));
    return judge(who);
  };
  options.deliver = [this](const Acceptor::Arrival& arrival, std::unique_ptr<Socket> socket) {
    ::epoll_ctl(epoll_, EPOLL_CTL_DEL, arrival.fd, nullptr);
    enter(std::move(socket->fd), *wire::decode<wire::RankClaim>(arrival.claim));
  };
  options.refused = [this](const Acceptor::Arrival& arrival, const Status& why) {
    return ranks_.note_key_refused(arrival.claim, arrival.peer.host(), why);
  };
  HORING_ASSIGN(acceptor_, Acceptor::open(std::move(setup_.listeners), std::move(options)));
  enter(std::move(setup_.own_end), setup_.own);
  return {};
}

Status RendezvousAcceptor::judge(const wire::RankClaim& who) {
  if (called_off_.has_value()) {
    return {};  // it is told why
  }
  return ranks_.judge(who);
}

void RendezvousAcceptor::enter(Fd fd, const wire::RankClaim& who) {
  if (called_off_.has_value()) {
    ControlConnection::refuse(std::move(fd), *called_off_);
    return;
  }
  // Two connections may have been judged in the same turn.
  if (Status decision = judge(who); !decision.ok()) {
    log_warn("rendezvous: {}", decision.message());
    return;
  }
  if (who.rank != setup_.own.rank) {
    for (const Status& status : {set_no_delay(fd.get()), set_keep_alive(fd.get())}) {
      if (!status.ok()) {
        log_warn("rendezvous: {}", status.message());
      }
    }
    if (const auto address = local_address(fd.get()); address.ok() && address_.empty()) {
      address_ = address->host();
    }
  }
  if (Status status = connections_.add(
          who.rank, std::move(fd), setup_.failover.on && who.rank != setup_.own.rank);
      !status.ok()) {
    log_error("rendezvous: {}", status.message());
    return;
  }
  ranks_.enter(who, Clock::now());
}

Deadline RendezvousAcceptor::next_deadline() const {
  return std::min(Deadline{std::chrono::nanoseconds(acceptor_->next_deadline_ns())},
                  ranks_.next_deadline());
}

void RendezvousAcceptor::note_closed(uint32_t rank) {
  if (!over_ && !called_off_.has_value() && !ranks_.gave_up(rank)) {
    ranks_.note_lost(rank);
  }
}

void RendezvousAcceptor::close() {
  if (over_) {
    return;
  }
  over_ = true;
  acceptor_->close();
  spare_.reset();
  if (setup_.on_ended) {
    setup_.on_ended();
  }
}

bool RendezvousAcceptor::finish() {
  const std::optional<Status> complete = ranks_.complete();
  if (!complete.has_value()) {
    return false;
  }
  if (!complete->ok()) {
    call_off(*complete);
    return false;
  }
  close();
  connections_.send_to_all(wire::Type::kWelcome,
                           ControlConnection::body_of(
                               wire::Welcome{.job_id = setup_.job_id,
                                             .coordinator = RendezvousRanks::to_string(setup_.own),
                                             .coordinator_address = address_}));
  return true;
}

bool RendezvousAcceptor::step(Deadline now, const Turn& turn) {
  if (over_) {
    return false;
  }
  acceptor_->step(now_ns());
  if (finish()) {
    return true;
  }
  give_up(now, turn);
  return false;
}

void RendezvousAcceptor::give_up(Deadline now, const Turn& turn) {
  if (over_) {
    return;
  }
  const Status late =
      ranks_.late(now, {acceptor_->shortage().message(), acceptor_->refusals().text()});
  if (!late.ok()) {
    call_off(late);
  } else if (const Status stuck = acceptor_->stuck(now_ns()); !stuck.ok()) {
    called_off_ = ranks_.stuck(stuck);
    turn_away_waiting(turn);
    call_off(*called_off_);
  } else if (const Status refused = ranks_.all_refused(now); !refused.ok()) {
    call_off(refused);
  }
}

// Ranks that have connected and were not let in know nothing: they would wait, and then look for a
// rank 0 that is no more. The others are told first, and their descriptors come free.
void RendezvousAcceptor::turn_away_waiting(const Turn& turn) {
  constexpr std::chrono::seconds kLongest{2};
  constexpr std::chrono::milliseconds kQuiet{300};  // who tries again does so earlier
  constexpr std::chrono::milliseconds kPause{20};
  for (uint32_t rank = 0; rank < setup_.world_size; ++rank) {
    if (rank != setup_.own.rank) {
      connections_.send(
          rank, wire::Type::kRefusal, 0, ControlConnection::outcome_body(*called_off_));
    }
  }
  spare_.reset();
  const Deadline end = deadline_after(kLongest);
  Deadline quiet = deadline_after(kQuiet);
  do {
    acceptor_->step(now_ns());
    if (acceptor_->someone_waits()) {
      quiet = deadline_after(kQuiet);
    }
  } while (!turn(deadline_after(kPause)) && !passed(std::min(end, quiet)));
}

void RendezvousAcceptor::call_off(const Status& why) {
  close();
  connections_.send_to_all(wire::Type::kRefusal, ControlConnection::outcome_body(why));
}

}  // namespace ho
