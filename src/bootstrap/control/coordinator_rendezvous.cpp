// How the ranks meet: who may enter, when all are here, and what is said when they will not be.
#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>

#include "base/log.hpp"
#include "bootstrap/control/coordinator.hpp"
#include "bootstrap/messages/rank_names.hpp"
#include "bootstrap/rendezvous/job_identity.hpp"

namespace ho {
namespace {

constexpr std::chrono::milliseconds kSecondThought{500};

}  // namespace

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
    return watch(epoll_.get(), EPOLL_CTL_ADD, socket.fd.get(), kAcceptorToken, EPOLLET);
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
    return note_key_refused(arrival, why);
  };
  HORING_ASSIGN(acceptor_, Acceptor::open(std::move(setup_.listeners), std::move(options)));
  return {};
}

// A file is where several jobs may meet by mistake, since each can reach it. Nothing is known of
// the job of somebody who has the key and no identity, or another kind of it.
bool Coordinator::may_be_of_another_job(const wire::RankClaim& who) const {
  const JobComparison jobs = compare_jobs(setup_.own.job, who.job);
  const bool at_file = setup_.address.starts_with("file://");
  return !jobs.difference.empty() || (at_file && !jobs.same);
}

Status Coordinator::judge(const wire::RankClaim& who) {
  if (called_off_.has_value()) {
    return {};  // it is told why
  }
  Status decision = judge_rank(who);
  if (!decision.ok()) {
    note_unsuited(who, decision);
  }
  return decision;
}

// Of this job it is not expected again, and what is missing now may be missing for ever. Who may be
// of another job changes nothing for those who wait.
void Coordinator::note_unsuited(const wire::RankClaim& who, const Status& why) {
  if (may_be_of_another_job(who)) {
    if (const auto left_out = strangers_told_.take(now_ns())) {
      log_warn("rendezvous: {}; the rendezvous of the others goes on{}",
               why.message(),
               LogQuota::note(*left_out));
    }
    return;
  }
  if (who.world_size == setup_.world_size && doubles_.size() < setup_.world_size) {
    doubles_.emplace(name_of(who), why);
  }
  if (who.world_size != setup_.world_size && who.rank < setup_.world_size &&
      peers_[who.rank].presence == Presence::kAbsent) {
    peers_[who.rank].refused = why;
  }
}

Status Coordinator::judge_rank(const wire::RankClaim& who) const {
  const JobComparison jobs = compare_jobs(setup_.own.job, who.job);
  if (!jobs.difference.empty()) {
    return {StatusCode::kMismatch,
            "another job meets at " + setup_.address + ": of " + name_of(setup_.own) + " and " +
                name_of(who) + ", " + jobs.difference +
                "; give each job a place of its own (HORING_RENDEZVOUS, or MASTER_PORT), and all "
                "ranks of a job the same HORING_JOB_ID where that is set"};
  }
  const std::string or_another =
      may_be_of_another_job(who)
          ? "; or another job uses this file: give each job a file of its own, or set "
            "HORING_JOB_ID"
          : "";
  if (who.world_size != setup_.world_size) {
    return {StatusCode::kMismatch,
            name_of(setup_.own) + " was started with a world size of " +
                std::to_string(setup_.world_size) + ", " + name_of(who) + " with " +
                std::to_string(who.world_size) + "; give all ranks the same (WORLD_SIZE)" +
                or_another};
  }
  const Peer& peer = peers_[who.rank];
  if (peer.presence != Presence::kAbsent) {
    return {StatusCode::kMismatch,
            "rank " + std::to_string(who.rank) + " has come twice: " + name_of(peer.who) + " and " +
                name_of(who) + "; give every process its own rank (RANK)" + or_another};
  }
  return {};
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
  Peer& peer = peers_[who.rank];
  peer.channel = std::make_unique<ControlConnection>(std::move(fd));
  peer.who = who;
  peer.presence = Presence::kHere;
  peer.refused = Status();
  peer.gave_up = Status();
  peer.lost = false;
  peer.deadline = Clock::now() + std::chrono::milliseconds(who.timeout_ms);
  ++present_count_;
  if (Status status = watch(epoll_.get(), EPOLL_CTL_ADD, peer.channel->fd(), who.rank);
      !status.ok()) {
    log_error("rendezvous: {}", status.message());
    drop(who.rank, Presence::kAbsent);
  }
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
  const auto gave_up = std::find_if(
      peers_.begin(), peers_.end(), [](const Peer& peer) { return !peer.gave_up.ok(); });
  const auto gone = std::count_if(peers_.begin(), peers_.end(), [](const Peer& peer) {
    return peer.presence != Presence::kHere && !peer.gave_up.ok();
  });
  if (present_count_ + static_cast<uint32_t>(gone) < setup_.world_size) {
    return;
  }
  if (gave_up != peers_.end()) {
    call_off(gave_up->gave_up);
    return;
  }
  end_rendezvous();
  std::vector<std::string> names;
  names.reserve(peers_.size());
  for (const Peer& peer : peers_) {
    names.push_back(name_of(peer.who));
  }
  failures_ = std::make_unique<CommunicatorFailures>(std::move(names));
  send_to_all(
      wire::Type::kWelcome,
      ControlConnection::body_of(wire::encode(wire::Welcome{.job_id = setup_.job_id,
                                                            .coordinator = name_of(setup_.own),
                                                            .coordinator_address = address_})));
}

std::vector<uint32_t> Coordinator::missing_ranks() const {
  std::vector<uint32_t> missing;
  for (uint32_t rank = 0; rank < setup_.world_size; ++rank) {
    if (peers_[rank].presence != Presence::kHere) {
      missing.push_back(rank);
    }
  }
  return missing;
}

std::string Coordinator::missing_text(std::optional<uint32_t> impatient) const {
  const std::vector<uint32_t> missing = missing_ranks();
  std::string text = std::to_string(present_count_) + " of " + std::to_string(setup_.world_size) +
                     " ranks arrived at " + setup_.address;
  text += impatient.has_value()
              ? " before the deadline of " + name_of(peers_[*impatient].who) + " passed"
              : " within " + std::to_string(setup_.own.timeout_ms) + " ms";
  text += "; missing: " + rank_list(missing);
  for (const std::string& about : {acceptor_->shortage().message(), acceptor_->refusals().text()}) {
    text += about.empty() ? "" : "; " + about;
  }
  for (const Peer& peer : peers_) {
    text += peer.gave_up.ok() ? "" : "; " + peer.gave_up.message();
  }
  constexpr size_t kMaxNames = 8;
  size_t lost = 0;
  for (const Peer& peer : peers_) {
    if (peer.lost && peer.presence != Presence::kHere && lost++ < kMaxNames) {
      text += "; " + name_of(peer.who) +
              " had come and is gone: its control connection closed without a goodbye (killed or "
              "crashed)";
    }
  }
  text += lost > kMaxNames ? "; " + std::to_string(lost - kMaxNames) + " more are gone" : "";
  for (const std::string& refusal : key_refusals_.texts(missing)) {
    text += "; " + refusal;
  }
  return text + "; see the output of the missing ranks, or give more time to meet: " +
         "the call's timeout, or HORING_CONNECT_TIMEOUT_MS";
}

void Coordinator::fail_rendezvous(Deadline now) {
  if (!rendezvous_) {
    return;
  }
  const bool own_over = setup_.deadline <= now || peers_[setup_.own.rank].deadline <= now;
  const auto impatient = std::find_if(peers_.begin(), peers_.end(), [now](const Peer& peer) {
    return peer.presence == Presence::kHere && peer.deadline <= now;
  });
  if (own_over || impatient != peers_.end()) {
    const auto rank = own_over ? std::nullopt : std::optional(impatient->who.rank);
    call_off({missing_for_keys() ? StatusCode::kUnauthenticated : StatusCode::kTimeout,
              missing_text(rank)});
  } else if (const Status stuck = acceptor_->stuck(now_ns()); !stuck.ok()) {
    called_off_.emplace(stuck.code(),
                        name_of(setup_.own) + ": " + stuck.message() + "; " +
                            std::to_string(present_count_) + " of " +
                            std::to_string(setup_.world_size) + " ranks arrived at " +
                            setup_.address + "; missing: " + rank_list(missing_ranks()));
    turn_away_waiting();
    call_off(*called_off_);
  } else if (!nobody_left_to_come()) {
    all_refused_due_ = Deadline::max();
  } else if (all_refused_due_ <= now) {
    call_off(all_refused_error());
  } else {
    all_refused_due_ = std::min(all_refused_due_, now + kSecondThought);
  }
}

void Coordinator::turn_away(Fd fd, const Status& why) const {
  ControlConnection channel(std::move(fd));
  channel.queue(wire::Type::kRefusal, 0, outcome_body(why));
  (void)channel.send_some();  // a fresh socket's buffer takes it
}

// Ranks that have connected and were not let in know nothing: they would wait, and then look for a
// rank 0 that is no more. The others are told first, and their descriptors come free.
void Coordinator::turn_away_waiting() {
  constexpr std::chrono::seconds kLongest{2};
  constexpr std::chrono::milliseconds kQuiet{300};  // who tries again does so earlier
  constexpr std::chrono::milliseconds kPause{20};
  for (uint32_t rank = 0; rank < setup_.world_size; ++rank) {
    if (rank != setup_.own.rank) {
      send(rank, wire::Type::kRefusal, 0, outcome_body(*called_off_));
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
  send_to_all(wire::Type::kRefusal, outcome_body(why));
}

// A rank that has come and cannot take part: all are told once the others are here, lest one that
// comes later finds nobody who knows why.
void Coordinator::note_gave_up(uint32_t rank, const wire::Message& report) {
  Peer& peer = peers_[rank];
  const auto why = wire::decode<FailureReport>(report.body);
  peer.gave_up = why.ok()
                     ? Status(why->code, why->text + " (reported by " + name_of(peer.who) + ")")
                     : why.status().with_context(name_of(peer.who));
}

// Anybody can claim to be a rank: who cannot prove the key is refused, and changes nothing for
// those who can. Rank 0 says so at once, and again where ranks are missing at the deadline. False:
// it was refused for something else, or does not say who it is.
bool Coordinator::note_key_refused(const Acceptor::Arrival& arrival, const Status& why) {
  const auto who = wire::decode<wire::RankClaim>(arrival.claim);
  if (why.code() != StatusCode::kUnauthenticated || !who.ok()) {
    return false;
  }
  const std::string text = name_of(*who) + " from " + arrival.peer.host() +
                           " was refused for the job key: " + why.message();
  const KeyRefusals::Kind kind = key_refusals_.note(*who, text);
  if (kind == KeyRefusals::Kind::kAgain) {
    return true;
  }
  // Who floods rank 0 with names that are nobody's shall not silence what is told of the others.
  LogQuota& told = kind == KeyRefusals::Kind::kNew ? key_refusals_told_ : strangers_told_;
  if (const auto left_out = told.take(now_ns())) {
    log_warn(
        "rendezvous: {}; the rendezvous of the others goes on{}", text, LogQuota::note(*left_out));
  }
  return true;
}

// Whether somebody was refused as each of the ranks that are missing: the likeliest cause then.
bool Coordinator::missing_for_keys() const {
  const std::vector<uint32_t> missing = missing_ranks();
  return std::all_of(missing.begin(), missing.end(), [this](uint32_t rank) {
    return key_refusals_.was_refused(rank);
  });
}

// A process that came as a rank that is here was meant to be one of those that are missing.
bool Coordinator::nobody_left_to_come() const {
  const auto expected = std::count_if(peers_.begin(), peers_.end(), [](const Peer& peer) {
    return peer.presence != Presence::kHere && peer.refused.ok();
  });
  return static_cast<size_t>(expected) <= doubles_.size();
}

Status Coordinator::all_refused_error() const {
  std::vector<uint32_t> missing;
  Status mismatch = doubles_.empty() ? Status() : doubles_.begin()->second;
  for (uint32_t rank = 0; rank < setup_.world_size; ++rank) {
    const Peer& peer = peers_[rank];
    if (peer.presence == Presence::kHere) {
      continue;
    }
    missing.push_back(rank);
    if (!peer.refused.ok() && mismatch.ok()) {
      mismatch = peer.refused;
    }
  }
  return {StatusCode::kMismatch,
          std::to_string(present_count_) + " of " + std::to_string(setup_.world_size) +
              " ranks arrived at " + setup_.address + ", whose server is " + name_of(setup_.own) +
              "; missing: " + rank_list(missing) + "; " + mismatch.message()};
}

}  // namespace ho
