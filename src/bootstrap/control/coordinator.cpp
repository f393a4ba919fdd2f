// One epoll loop over all ranks; nothing in it blocks. The thread owns everything but the wake
// descriptor, through which the destructor tells it to stop: there is no lock because nothing is
// shared.
//
// Its life: rendezvous (RendezvousAcceptor: until all ranks are here or the earliest deadline of
// any rank passes), serve (all-gathers, reports, ranks that go), announce the shutdown.
#include "bootstrap/control/coordinator.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/log.hpp"
#include "bootstrap/messages/messages.hpp"

namespace ho {
namespace {

constexpr std::chrono::milliseconds kHearTime{1000};
constexpr std::chrono::milliseconds kCloseTime{200};
// For a rank whose path is lost while rank 0 leaves.
constexpr std::chrono::milliseconds kComeBackTime{10'000};

Status malformed(const Status& why) {
  return {StatusCode::kProtocol, " sent a malformed control message: " + why.message()};
}

}  // namespace

Result<std::unique_ptr<Coordinator>> Coordinator::start(Setup setup) {
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll.valid() || !wake.valid()) {
    return system_error("epoll_create1 or eventfd for the coordinator", errno);
  }
  HORING_TRY(PeerConnections::watch(epoll.get(), EPOLL_CTL_ADD, wake.get(), kWakeToken));
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  std::unique_ptr<Coordinator> coordinator(
      new Coordinator(std::move(setup), std::move(epoll), std::move(wake)));
  HORING_TRY(coordinator->rendezvous_.open());
  coordinator->thread_ = std::thread([raw = coordinator.get()] { raw->run(); });
  return coordinator;
}

Coordinator::Coordinator(Setup setup, Fd epoll, Fd wake)
    : own_rank_(setup.own.rank),
      epoll_(std::move(epoll)),
      wake_(std::move(wake)),
      connections_(epoll_.get(), setup.world_size),
      rendezvous_(std::move(setup), epoll_.get(), connections_),
      gathers_(connections_, connections_.world_size()),
      peers_(connections_.world_size()) {}

Coordinator::~Coordinator() {
  ::eventfd_write(wake_.get(), 1);
  if (thread_.joinable()) {
    thread_.join();
  }
}

void Coordinator::run() {
  if (rendezvous_.finish()) {
    begin_job();
  }
  while (!stop_) {
    stop_ = turn(next_deadline());
    const Deadline now = Clock::now();
    const bool all_here = rendezvous_.step(now, [this](Deadline end) {
      stop_ = turn(end) || stop_;
      return stop_;
    });
    if (all_here) {
      begin_job();
    }
    gathers_.expire(now);
    if (job_) {
      pronounce();
      job_->passed_on.send_leave_notices(now);
    }
  }
  rendezvous_.close();
  send_shutdown();
}

void Coordinator::begin_job() {
  const RendezvousAcceptor::Setup& setup = rendezvous_.setup();
  job_ = std::make_unique<Job>(connections_, rendezvous_.ranks().names());
  if (!setup.failover.on || connections_.world_size() == 1) {
    return;
  }
  auto sessions = Sessions::open({.options = setup.failover,
                                  .key = setup.key,
                                  .job_id = setup.job_id,
                                  .epoll_token = RendezvousAcceptor::kToken,
                                  .names = rendezvous_.ranks().names()},
                                 own_rank_,
                                 epoll_.get(),
                                 connections_);
  if (sessions.ok()) {
    sessions_ = *std::move(sessions);
  } else {
    log_warn("control plane: it does not fail over: {}", sessions.status().message());
  }
}

Deadline Coordinator::next_deadline() const {
  Deadline next = gathers_.next_deadline();
  if (!rendezvous_.over()) {
    next = std::min(next, rendezvous_.next_deadline());
  }
  if (job_) {
    next = std::min({next, job_->failures.next_deadline(), job_->passed_on.next_deadline()});
  }
  if (sessions_) {
    next = std::min(next, sessions_->next_deadline());
  }
  return next;
}

// Each peer that has something to say gets a share of the turn, however much that is.
bool Coordinator::turn(Deadline end) {
  constexpr int64_t kLongestMs = 10'000;
  const std::vector<uint32_t> goes_on = std::exchange(unread_, {});
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left(end)).count();
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(epoll_.get(),
                                 events.data(),
                                 events.size(),
                                 goes_on.empty() ? static_cast<int>(std::min(ms, kLongestMs)) : 0);
  bool woken = false;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    if (event.data.u64 == kWakeToken) {
      woken = true;
      continue;
    }
    if (event.data.u64 == RendezvousAcceptor::kToken) {  // its step comes after each turn
      continue;
    }
    const auto rank = static_cast<uint32_t>(event.data.u64);
    if ((event.events & EPOLLOUT) != 0 && connections_.has(rank)) {
      connections_.flush(rank);
    }
    if (!peers_[rank].unread) {
      handle_peer(rank);
    }
  }
  for (const uint32_t rank : goes_on) {
    if (peers_[rank].unread) {
      handle_peer(rank);
    }
  }
  for (const uint32_t rank : connections_.take_overfull()) {
    peer_closed(rank,
                {StatusCode::kProtocol,
                 " does not read what rank 0 sends to it, or does not count it: more than " +
                     std::to_string(PeerConnections::kMaxHeldBytes >> 20U) +
                     " MiB of control messages wait for it"});
  }
  step_sessions(Clock::now());
  gathers_.answer_complete();
  return woken;
}

void Coordinator::step_sessions(Deadline now) {
  if (!sessions_) {
    return;
  }
  for (const Sessions::Gone& gone : sessions_->step(now)) {
    peer_closed(gone.rank, gone.how);
  }
}

// Reads more only when all is handled that was read, so that a peer that sends faster than this
// thread works has to wait.
void Coordinator::handle_peer(uint32_t rank) {
  constexpr int kShare = 64;  // messages
  Peer& peer = peers_[rank];
  const bool unread = std::exchange(peer.unread, false);
  if (!connections_.has(rank) || !connections_.of(rank).is_open()) {
    return;
  }
  const Result<bool> open = unread ? Result<bool>(true) : connections_.of(rank).read_some();
  // What came before the end counts: it may be the goodbye.
  for (int taken = 0; connections_.has(rank); ++taken) {
    if (taken == kShare) {
      peer.unread = true;  // an end of the connection shows again when it is read
      unread_.push_back(rank);
      return;
    }
    auto message = connections_.of(rank).next();
    if (!message.ok()) {
      peer_closed(rank, malformed(message.status()));
      return;
    }
    if (!message->has_value()) {
      break;
    }
    handle_message(rank, std::move(**message));
  }
  if (!connections_.has(rank)) {
    return;
  }
  if (open.ok() && *open) {
    if (connections_.of(rank).keeps()) {
      connections_.flush(rank);  // how much has come
    }
    return;
  }
  peer_ended(rank, open);
}

void Coordinator::peer_ended(uint32_t rank, const Result<bool>& open) {
  const std::string why = open.ok() ? "closed" : open.status().message();
  if (peers_[rank].shutdown_heard) {
    peer_left(rank);
  } else if (closing_ || !sessions_ || !sessions_->lost(rank, why)) {
    peer_closed(rank, {});
  }
}

void Coordinator::handle_message(uint32_t rank, wire::Message message) {
  if (message.header.type == wire::Type::kGoodbye) {
    // During the shutdown it may be the answer to that, of a rank that goes on and hears the rest.
    if (shutdown_) {
      peers_[rank].shutdown_heard = true;
    } else {
      peer_left(rank);
    }
    return;
  }
  if (!rendezvous_.over() && message.header.type == wire::Type::kReport) {
    rendezvous_.ranks().note_gave_up(rank, message);
    return;
  }
  if (job_ == nullptr || closing_) {
    return;  // nobody waits for an answer yet, or any more
  }
  if (Status status = dispatch(rank, message); !status.ok()) {
    peer_closed(rank, malformed(status));
  }
}

Status Coordinator::dispatch(uint32_t rank, wire::Message& message) {
  switch (message.header.type) {
    case wire::Type::kContribution: {
      HORING_ASSIGN(auto contribution, wire::decode<wire::Contribution>(message.body));
      gathers_.add({rank, message.header.id}, std::move(contribution), Clock::now());
      return {};
    }
    case wire::Type::kReport: {
      HORING_ASSIGN(FailureReport report, wire::decode<FailureReport>(message.body));
      report.reporter = GlobalRank(rank);  // whoever it says it is
      job_->failures.report(report, Clock::now());
      for (const uint64_t communicator : job_->failures.take_queries()) {
        for (uint32_t other = 0; other < connections_.world_size(); ++other) {
          connections_.send_if_read(other, wire::Type::kStateQuery, communicator, nullptr);
        }
      }
      return {};
    }
    case wire::Type::kStates: {
      HORING_ASSIGN(const auto states, wire::decode<std::vector<RankState>>(message.body));
      job_->failures.answer(rank, message.header.id, states);
      return {};
    }
    case wire::Type::kLeaving: {
      HORING_ASSIGN(LeaveNotice leave_notice, wire::decode<LeaveNotice>(message.body));
      leave_notice.rank = GlobalRank(rank);  // whoever it says it is
      leave_notice.name = rendezvous_.ranks().to_string(rank);
      job_->passed_on.leave(std::move(leave_notice), Clock::now());
      return {};
    }
    case wire::Type::kCallQuestion: {
      HORING_ASSIGN(CallQuestion question, wire::decode<CallQuestion>(message.body));
      question.rank = GlobalRank(rank);  // whoever it says it is
      job_->passed_on.ask(question);
      return {};
    }
    case wire::Type::kJoined: {
      HORING_ASSIGN(const Membership membership, wire::decode<Membership>(message.body));
      HORING_ASSIGN(const auto failed, job_->failures.join(rank, membership));
      if (failed.has_value()) {
        send_decisions({*failed});
      }
      return {};
    }
    case wire::Type::kReleased:
      job_->failures.release(rank, message.header.id);
      return {};
    case wire::Type::kStatusQuestion:
      job_->status.ask(rank, message.header.id);
      return {};
    case wire::Type::kStatusReport: {
      HORING_ASSIGN(StatusReport report, wire::decode<StatusReport>(message.body));
      job_->status.report(rank, std::move(report));
      return {};
    }
    case wire::Type::kAddresses: {
      HORING_ASSIGN(const auto addresses, wire::decode<wire::Addresses>(message.body));
      if (sessions_) {
        sessions_->set_addresses(rank, addresses);
      }
      return {};
    }
    default:
      return {StatusCode::kProtocol,
              "control message of type " + std::to_string(static_cast<int>(message.header.type)) +
                  " came from a rank; only the coordinator sends those"};
  }
}

void Coordinator::drop(uint32_t rank) {
  if (connections_.of(rank).keeps() && connections_.of(rank).is_open()) {
    connections_.of(rank).tell_received();  // its goodbye, if it has said one
    connections_.flush(rank);
  }
  connections_.drop(rank);
  if (job_) {
    job_->status.gone(rank);
  }
  if (sessions_) {
    sessions_->forget(rank);
  }
  rendezvous_.ranks().leave(rank);
  peers_[rank].unread = false;
}

void Coordinator::peer_closed(uint32_t rank, const Status& how) {
  drop(rank);
  const std::string name = rendezvous_.ranks().to_string(rank);
  if (how.ok()) {
    rendezvous_.note_closed(rank);
  }
  if (job_ == nullptr || closing_) {
    return;
  }
  job_->failures.rank_gone(
      rank, how.ok() ? how : Status(how.code(), name + how.message()), Clock::now());
  gathers_.end_of(rank,
                  Status(StatusCode::kPeerLost,
                         name + " is gone: its control connection closed without a goodbye"));
}

void Coordinator::peer_left(uint32_t rank) {
  drop(rank);
  if (job_ == nullptr || closing_) {
    return;
  }
  job_->failures.rank_left(rank);
  job_->left_while_deciding.push_back(rank);
  end_gathers_of_left();
}

// Where a decision is due, that is the news: all shall hear the first cause, not who left because
// of it. What the decision does not end waits for these ranks in vain.
void Coordinator::end_gathers_of_left() {
  if (job_->failures.deciding()) {
    return;
  }
  for (const uint32_t rank : std::exchange(job_->left_while_deciding, {})) {
    gathers_.end_of(
        rank,
        Status(StatusCode::kPeerLost,
               rendezvous_.ranks().to_string(rank) + " has left: it destroyed its communicator"));
  }
}

void Coordinator::send_decisions(const std::vector<CommunicatorFailures::Decision>& decisions) {
  std::vector<std::pair<uint64_t, ControlConnection::Body>> to_own;
  for (const CommunicatorFailures::Decision& decision : decisions) {
    const ControlConnection::Body body = ControlConnection::outcome_body(decision.cause);
    for (const uint32_t rank : decision.ranks) {
      if (rank == own_rank_) {
        to_own.emplace_back(decision.communicator, body);
      } else {
        connections_.send(rank, wire::Type::kDecision, decision.communicator, body);
      }
    }
  }
  for (const auto& [communicator, body] : to_own) {
    connections_.send(own_rank_, wire::Type::kDecision, communicator, body);
  }
}

void Coordinator::pronounce() {
  const auto decisions = job_->failures.decide(Clock::now());
  if (decisions.empty()) {
    return;
  }
  send_decisions(decisions);
  end_gathers_of_left();
}

bool Coordinator::all_heard_shutdown() const {
  for (uint32_t rank = 0; rank < connections_.world_size(); ++rank) {
    if (connections_.has(rank) && !peers_[rank].shutdown_heard) {
      return false;
    }
  }
  return true;
}

void Coordinator::turn_of_shutdown(Deadline end) {
  const Deadline next = sessions_ ? sessions_->next_deadline() : end;
  if (turn(std::min({end, next, gathers_.next_deadline()}))) {
    eventfd_t ignored = 0;
    ::eventfd_read(wake_.get(), &ignored);
  }
  gathers_.expire(Clock::now());
}

// How the coordinator leaves. What a rank has reported by then must still reach the others: nobody
// else could tell them, and they would wait until their deadlines. So it announces the shutdown,
// hears everybody out (a rank that knows of the shutdown answers with a goodbye and reports nothing
// from then on), decides at once what was reported, and only then closes. A rank that does not
// answer is waited for only so long.
void Coordinator::send_shutdown() {
  shutdown_ = true;
  if (job_) {
    job_->passed_on.send_leave_notices(Deadline::max());
  }
  connections_.send_to_all(wire::Type::kShutdown, nullptr);
  const Deadline heard = deadline_after(kHearTime);
  const Deadline back = deadline_after(kComeBackTime);
  const auto waits = [&] {
    return !passed(heard) || (!passed(back) && sessions_ && sessions_->someone_is_away());
  };
  while ((!all_heard_shutdown() || (job_ && job_->failures.waits_for_answers())) && waits()) {
    turn_of_shutdown(passed(heard) ? Clock::now() + PeerPaths::kStep : heard);
  }
  if (job_) {
    send_decisions(job_->failures.decide_now());
    job_->passed_on.send_leave_notices(Deadline::max());
  }
  closing_ = true;
  connections_.end_output();
  // Closing with unread input would reset the connection and could take the last words with it:
  // wait until the others have closed too, a stopped one excepted.
  const Deadline closed = deadline_after(kCloseTime);
  while (connections_.count() > 0 && !passed(closed)) {
    turn_of_shutdown(closed);
  }
}

}  // namespace ho
