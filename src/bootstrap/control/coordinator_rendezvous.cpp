// How the ranks find each other: who may enter, when all are here, and what is said when they will
// not be.
#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>

#include "base/log.hpp"
#include "bootstrap/control/coordinator.hpp"

namespace ho {
Status Coordinator::start_accepting() {
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
    return PeerConnections::watch(
        epoll_.get(), EPOLL_CTL_ADD, socket.fd.get(), kAcceptorToken, EPOLLET);
  };
  options.judge = [this](const Acceptor::Arrival& arrival) -> Status {
    HORING_ASSIGN(const wire::RankClaim who, wire::decode<wire::RankClaim>(arrival.claim));
    return judge(who);
  };
  options.deliver = [this](const Acceptor::Arrival& arrival, std::unique_ptr<Socket> socket) {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, arrival.fd, nullptr);
    enter(std::move(socket->fd), *wire::decode<wire::RankClaim>(arrival.claim));
  };
  options.refused = [this](const Acceptor::Arrival& arrival, const Status& why) {
    return rendezvous_ranks_.note_key_refused(arrival.claim, arrival.peer.host(), why);
  };
  HORING_ASSIGN(acceptor_, Acceptor::open(std::move(setup_.listeners), std::move(options)));
  return {};
}

Status Coordinator::judge(const wire::RankClaim& who) {
  if (called_off_.has_value()) {
    return {};  // it is told why
  }
  return rendezvous_ranks_.judge(who);
}

void Coordinator::enter(Fd fd, const wire::RankClaim& who) {
  if (called_off_.has_value()) {
    turn_away(std::move(fd), *called_off_);
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
  if (Status status = connections_.add(who.rank, std::move(fd)); !status.ok()) {
    log_error("rendezvous: {}", status.message());
    return;
  }
  rendezvous_ranks_.enter(who, Clock::now());
}

void Coordinator::end_rendezvous() {
  if (!rendezvous_) {
    return;
  }
  rendezvous_ = false;
  acceptor_->close();
  spare_.reset();
  if (setup_.on_ended) {
    setup_.on_ended();
  }
}

void Coordinator::finish_rendezvous() {
  const std::optional<Status> complete = rendezvous_ranks_.complete();
  if (!complete.has_value()) {
    return;
  }
  if (!complete->ok()) {
    call_off(*complete);
    return;
  }
  end_rendezvous();
  job_ = std::make_unique<Job>(connections_, rendezvous_ranks_.names());
  connections_.send_to_all(wire::Type::kWelcome,
                           ControlConnection::body_of(wire::encode(
                               wire::Welcome{.job_id = setup_.job_id,
                                             .coordinator = RendezvousRanks::to_string(setup_.own),
                                             .coordinator_address = address_})));
}

void Coordinator::fail_rendezvous(Deadline now) {
  if (!rendezvous_) {
    return;
  }
  const Status late =
      rendezvous_ranks_.late(now, {acceptor_->shortage().message(), acceptor_->refusals().text()});
  if (!late.ok()) {
    call_off(late);
  } else if (const Status stuck = acceptor_->stuck(now_ns()); !stuck.ok()) {
    called_off_ = rendezvous_ranks_.stuck(stuck);
    turn_away_waiting();
    call_off(*called_off_);
  } else if (const Status refused = rendezvous_ranks_.all_refused(now); !refused.ok()) {
    call_off(refused);
  }
}

void Coordinator::turn_away(Fd fd, const Status& why) const {
  ControlConnection connection(std::move(fd));
  connection.queue(wire::Type::kRefusal, 0, ControlConnection::outcome_body(why));
  (void)connection.send_some();  // a fresh socket's buffer takes it
}

// Ranks that have connected and were not let in know nothing: they would wait, and then look for a
// rank 0 that is no more. The others are told first, and their descriptors come free.
void Coordinator::turn_away_waiting() {
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
  while (!stop_ && !passed(std::min(end, quiet))) {
    acceptor_->step(now_ns());
    if (acceptor_->someone_waits()) {
      quiet = deadline_after(kQuiet);
    }
    stop_ = turn(deadline_after(kPause)) || stop_;
  }
}

void Coordinator::call_off(const Status& why) {
  end_rendezvous();
  connections_.send_to_all(wire::Type::kRefusal, ControlConnection::outcome_body(why));
}

}  // namespace ho
