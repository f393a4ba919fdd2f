// One epoll loop over all ranks; nothing in it blocks. The thread owns everything but the wake
// descriptor, through which the destructor tells it to stop: there is no lock because nothing is
// shared.
//
// Its life: meet (coordinator_rendezvous.cpp: admit ranks until all are here or the earliest
// deadline of any rank passes), serve (all-gathers, reports, ranks that go), announce the shutdown
// (coordinator_shutdown.cpp).
#include "bootstrap/control/coordinator.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <utility>

#include "base/log.hpp"
#include "bootstrap/messages/rank_names.hpp"

namespace ho {
namespace {

// One by one; then one a minute.
constexpr uint32_t kMaxRefusalsTold = 32;

constexpr size_t kMaxUnsentBytes = size_t{64} << 20U;

constexpr const char* kMalformed = " sent a malformed control message: ";

}  // namespace

Status Coordinator::watch(int epoll, int operation, int fd, uint64_t token, uint32_t more_events) {
  epoll_event event{};
  event.events = EPOLLIN | more_events;
  event.data.u64 = token;
  if (::epoll_ctl(epoll, operation, fd, &event) != 0) {
    return system_error("epoll_ctl of the coordinator", errno);
  }
  return {};
}

std::string Coordinator::name_of(const wire::RankClaim& who) {
  return rank_at_host(who.rank, who.host, who.pid, who.called);
}

ControlConnection::Body Coordinator::outcome_body(const Status& status) {
  return ControlConnection::body_of(wire::encode(wire::Outcome{status.code(), status.message()}));
}

Result<std::unique_ptr<Coordinator>> Coordinator::start(Setup setup) {
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll.valid() || !wake.valid()) {
    return system_error("epoll_create1 or eventfd for the coordinator", errno);
  }
  HORING_TRY(watch(epoll.get(), EPOLL_CTL_ADD, wake.get(), kWakeToken));
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  std::unique_ptr<Coordinator> coordinator(
      new Coordinator(std::move(setup), std::move(epoll), std::move(wake)));
  HORING_TRY(coordinator->start_accepting());
  coordinator->enter(std::move(coordinator->setup_.own_end), coordinator->setup_.own);
  coordinator->thread_ = std::thread([raw = coordinator.get()] { raw->run(); });
  return coordinator;
}

Coordinator::Coordinator(Setup setup, Fd epoll, Fd wake)
    : setup_(std::move(setup)),
      epoll_(std::move(epoll)),
      wake_(std::move(wake)),
      peers_(setup_.world_size),
      key_refusals_(setup_.world_size),
      key_refusals_told_(kMaxRefusalsTold),
      gathers_(setup_.world_size) {}

Coordinator::~Coordinator() {
  ::eventfd_write(wake_.get(), 1);
  if (thread_.joinable()) {
    thread_.join();
  }
}

void Coordinator::run() {
  finish_rendezvous();  // a world of one is complete at once
  while (!stop_) {
    stop_ = turn(next_deadline());
    const Deadline now = Clock::now();
    if (rendezvous_) {
      acceptor_->step(now_ns());
      finish_rendezvous();
      fail_rendezvous(now);
    }
    answer(gathers_.expire(now));
    pronounce();
    send_leave_notices(now);
  }
  end_rendezvous();
  send_shutdown();
}

Deadline Coordinator::next_deadline() const {
  Deadline next = gathers_.next_deadline();
  if (rendezvous_) {
    const Deadline arrivals{std::chrono::nanoseconds(acceptor_->next_deadline_ns())};
    next = std::min({next, arrivals, setup_.deadline, all_refused_due_});
    for (const Peer& peer : peers_) {
      next = std::min(next, peer.deadline);
    }
  }
  if (failures_) {
    next = std::min(next, failures_->next_deadline());
  }
  return std::min(next, leave_notices_due_);
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
    if (event.data.u64 == kAcceptorToken) {  // the acceptor's step comes after each turn
      continue;
    }
    const auto rank = static_cast<uint32_t>(event.data.u64);
    if ((event.events & EPOLLOUT) != 0 && peers_[rank].channel != nullptr) {
      flush(rank);
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
  give_up_overfull();
  answer_complete();
  return woken;
}

// Reads more only when all is handled that was read, so that a peer that sends faster than this
// thread works has to wait.
void Coordinator::handle_peer(uint32_t rank) {
  constexpr int kShare = 64;  // messages
  Peer& peer = peers_[rank];
  if (peer.channel == nullptr) {
    return;
  }
  const Result<bool> open = peer.unread ? Result<bool>(true) : peer.channel->read_some();
  peer.unread = false;
  // What came before the end counts: it may be the goodbye.
  for (int taken = 0; peer.channel != nullptr; ++taken) {
    if (taken == kShare) {
      peer.unread = true;  // an end of the connection shows again when it is read
      unread_.push_back(rank);
      return;
    }
    auto message = peer.channel->next();
    if (!message.ok()) {
      peer_closed(rank, kMalformed + message.status().message());
      return;
    }
    if (!message->has_value()) {
      break;
    }
    handle_message(rank, std::move(**message));
  }
  if (peer.channel == nullptr || (open.ok() && *open)) {
    return;
  }
  if (peer.shutdown_heard) {
    peer_left(rank);
  } else {
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
  if (rendezvous_ && message.header.type == wire::Type::kReport) {
    note_gave_up(rank, message);
    return;
  }
  if (failures_ == nullptr || closing_) {
    return;  // nobody waits for an answer yet, or any more
  }
  if (Status status = dispatch(rank, message); !status.ok()) {
    peer_closed(rank, kMalformed + status.message());
  }
}

Status Coordinator::dispatch(uint32_t rank, wire::Message& message) {
  switch (message.header.type) {
    case wire::Type::kContribution: {
      HORING_ASSIGN(auto contribution, wire::decode<wire::Contribution>(message.body));
      auto outcome = gathers_.add({rank, message.header.id}, std::move(contribution), Clock::now());
      if (outcome.has_value()) {
        complete_.push_back(std::move(*outcome));
      }
      return {};
    }
    case wire::Type::kReport: {
      HORING_ASSIGN(FailureReport report, wire::decode<FailureReport>(message.body));
      report.reporter = GlobalRank(rank);  // whoever it says it is
      failures_->report(report, Clock::now());
      for (const uint64_t communicator : failures_->take_queries()) {
        for (uint32_t other = 0; other < setup_.world_size; ++other) {
          send_if_read(other, wire::Type::kStateQuery, communicator, nullptr);
        }
      }
      return {};
    }
    case wire::Type::kStates: {
      HORING_ASSIGN(const auto states, wire::decode<std::vector<RankState>>(message.body));
      failures_->answer(rank, message.header.id, states);
      return {};
    }
    case wire::Type::kLeaving: {
      HORING_ASSIGN(LeaveNotice leave_notice, wire::decode<LeaveNotice>(message.body));
      leave_notice.rank = GlobalRank(rank);  // whoever it says it is
      leave_notice.name = name_of(peers_[rank].who);
      note_leaving(std::move(leave_notice));
      return {};
    }
    case wire::Type::kCallQuestion: {
      HORING_ASSIGN(CallQuestion question, wire::decode<CallQuestion>(message.body));
      question.rank = GlobalRank(rank);  // whoever it says it is
      pass_on(std::move(question));
      return {};
    }
    case wire::Type::kJoined:
      return enter_communicator(rank, message);
    case wire::Type::kReleased:
      failures_->release(rank, message.header.id);
      return {};
    default:
      return {StatusCode::kProtocol,
              "control message of type " + std::to_string(static_cast<int>(message.header.type)) +
                  " came from a rank; only the coordinator sends those"};
  }
}

Status Coordinator::enter_communicator(uint32_t rank, const wire::Message& message) {
  HORING_ASSIGN(const Membership membership, wire::decode<Membership>(message.body));
  HORING_ASSIGN(const auto failed, failures_->join(rank, membership));
  if (failed.has_value()) {
    send_decisions({*failed});
  }
  return {};
}

void Coordinator::drop(uint32_t rank, Presence presence) {
  Peer& peer = peers_[rank];
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.channel->fd(), nullptr);
  peer.channel.reset();
  peer.presence = presence;
  peer.deadline = Deadline::max();
  peer.watches_output = false;
  peer.unread = false;
  peer.overfull = false;
  --present_count_;
}

void Coordinator::peer_closed(uint32_t rank, const std::string& how) {
  drop(rank, rendezvous_ ? Presence::kAbsent : Presence::kGone);
  const std::string name = name_of(peers_[rank].who);
  if (rendezvous_ && !called_off_.has_value() && how.empty() && peers_[rank].gave_up.ok()) {
    peers_[rank].lost = true;  // it may come again
    log_warn("rendezvous: {} had come and is gone: its control connection closed without a goodbye",
             name);
  }
  if (failures_ == nullptr || closing_) {
    return;
  }
  failures_->rank_gone(rank, how.empty() ? how : name + how, Clock::now());
  end_gathers_of(rank,
                 Status(StatusCode::kPeerLost,
                        name + " is gone: its control connection closed without a goodbye"));
}

void Coordinator::peer_left(uint32_t rank) {
  drop(rank, rendezvous_ ? Presence::kAbsent : Presence::kLeft);
  if (failures_ == nullptr || closing_) {
    return;
  }
  failures_->rank_left(rank);
  left_while_deciding_.push_back(rank);
  end_gathers_of_left();
}

// Where a decision is due, that is the news: all shall hear the first cause, not who left because
// of it. What the decision does not end waits for these ranks in vain.
void Coordinator::end_gathers_of_left() {
  if (failures_->deciding()) {
    return;
  }
  for (const uint32_t rank : std::exchange(left_while_deciding_, {})) {
    end_gathers_of(rank,
                   Status(StatusCode::kPeerLost,
                          name_of(peers_[rank].who) + " has left: it destroyed its communicator"));
  }
}

// Who has gone has not heard the answer to its last gather.
void Coordinator::end_gathers_of(uint32_t rank, const Status& why) {
  answer(gathers_.rank_ended(rank, why));
  for (GatherTable::Outcome& outcome : complete_) {
    const auto& waiters = outcome.waiters;
    if (outcome.error.ok() &&
        std::any_of(waiters.begin(), waiters.end(), [rank](const GatherTable::Waiter& waiter) {
          return waiter.rank == rank;
        })) {
      outcome.error = why;
      outcome.parts.clear();
    }
  }
}

// Ranks mostly leave all at once, and whoever has left needs no news of the others: so these
// messages are only kept here, and sent a moment later to those who are still there.
void Coordinator::note_leaving(LeaveNotice leave_notice) {
  constexpr std::chrono::milliseconds kPause{5};
  if (failures_->leaves(leave_notice.rank.value(), leave_notice.communicator)) {
    leave_notices_.push_back(std::move(leave_notice));
    leave_notices_due_ = std::min(leave_notices_due_, Clock::now() + kPause);
  }
}

// Whoever is
// through with this communicator hears nothing of it any more; who has said that it leaves still
// waits for its own requests, perhaps for what this rank will not send. Where a decision is due,
// that is the news: all shall hear the first cause, not who left because of it.
void Coordinator::spread(LeaveNotice leave_notice) {
  const uint64_t communicator = leave_notice.communicator;
  if (!failures_->knows(communicator) || failures_->has_cause(communicator)) {
    return;
  }
  std::map<uint32_t, LeaveNotice::Pair> pair_with;
  for (const LeaveNotice::Pair& pair : std::exchange(leave_notice.pairs, {})) {
    pair_with.emplace(pair.peer.value(), pair);
  }
  std::vector<bool> wanted(peers_.size(), leave_notice.members.empty());
  for (const GlobalRank member : std::exchange(leave_notice.members, {})) {
    if (member.at() < wanted.size()) {
      wanted[member.at()] = true;
    }
  }
  wanted[leave_notice.rank.at()] = false;
  const auto to_most = ControlConnection::body_of(wire::encode(leave_notice));
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    if (!wanted[rank] || failures_->is_outside(rank, communicator) || !takes_more(rank)) {
      continue;
    }
    ControlConnection::Body body = to_most;
    if (const auto pair = pair_with.find(rank); pair != pair_with.end()) {
      leave_notice.pairs = {pair->second};
      body = ControlConnection::body_of(wire::encode(leave_notice));
    }
    peers_[rank].channel->queue(wire::Type::kDeparted, 0, std::move(body));
  }
}

void Coordinator::send_leave_notices(Deadline now) {
  if (leave_notices_due_ > now) {
    return;
  }
  leave_notices_due_ = Deadline::max();
  for (LeaveNotice& leave_notice : std::exchange(leave_notices_, {})) {
    spread(std::move(leave_notice));
  }
  for (uint32_t rank = 0; rank < setup_.world_size; ++rank) {
    if (peers_[rank].channel != nullptr && peers_[rank].channel->has_output()) {
      flush(rank);
    }
  }
}

// A question that another rank has asked says nothing new; only its first rank may repeat it.
void Coordinator::pass_on(CallQuestion question) {
  constexpr size_t kMaxKept = 1024;  // more than wait at a time; then some are asked twice
  const std::vector<uint32_t> members = failures_->members(question.communicator);
  const uint32_t asking = question.rank.value();
  if (std::find(members.begin(), members.end(), asking) == members.end() ||
      failures_->has_cause(question.communicator)) {
    return;
  }
  if (first_to_ask_.size() >= kMaxKept) {
    first_to_ask_.clear();
  }
  const auto first = first_to_ask_.try_emplace(
      {question.communicator, question.channel, question.call}, question.rank);
  if (first.first->second != question.rank) {
    return;
  }
  const auto body = ControlConnection::body_of(wire::encode(question));
  for (const uint32_t member : members) {
    if (member != asking) {
      send_if_read(member, wire::Type::kCallQuestion, 0, body);
    }
  }
}

void Coordinator::send(uint32_t rank,
                       wire::Type type,
                       uint64_t id,
                       const ControlConnection::Body& body) {
  if (takes_more(rank)) {
    peers_[rank].channel->queue(type, id, body);
    flush(rank);
  }
}

// What a rank is owed is bounded by what it asks for and by what others do: one that asks for ever
// more, and does not read it, must not fill this process's memory.
bool Coordinator::takes_more(uint32_t rank) {
  Peer& peer = peers_[rank];
  if (peer.channel == nullptr || peer.overfull) {
    return false;
  }
  if (peer.channel->unsent_bytes() > kMaxUnsentBytes) {
    peer.overfull = true;
    overfull_.push_back(rank);
  }
  return !peer.overfull;
}

void Coordinator::give_up_overfull() {
  for (const uint32_t rank : std::exchange(overfull_, {})) {
    if (peers_[rank].overfull) {
      peer_closed(rank,
                  " does not read what rank 0 sends to it: more than " +
                      std::to_string(kMaxUnsentBytes >> 20U) +
                      " MiB of control messages wait for it");
    }
  }
}

void Coordinator::send_if_read(uint32_t rank,
                               wire::Type type,
                               uint64_t id,
                               const ControlConnection::Body& body) {
  constexpr size_t kMuch = size_t{1} << 20U;
  if (peers_[rank].channel != nullptr && peers_[rank].channel->unsent_bytes() < kMuch) {
    send(rank, type, id, body);
  }
}

// To its own rank last. Its process may end as soon as it hears a decision, and this thread with
// it.
void Coordinator::send_to_all(wire::Type type, const ControlConnection::Body& body, uint64_t id) {
  for (uint32_t rank = setup_.world_size; rank-- > 0;) {
    send(rank, type, id, body);
  }
}

void Coordinator::send_decisions(const std::vector<CommunicatorFailures::Decision>& decisions) {
  std::vector<std::pair<uint64_t, ControlConnection::Body>> to_own;
  for (const CommunicatorFailures::Decision& decision : decisions) {
    const ControlConnection::Body body = outcome_body(decision.cause);
    for (const uint32_t rank : decision.ranks) {
      if (rank == setup_.own.rank) {
        to_own.emplace_back(decision.communicator, body);
      } else {
        send(rank, wire::Type::kDecision, decision.communicator, body);
      }
    }
  }
  for (const auto& [communicator, body] : to_own) {
    send(setup_.own.rank, wire::Type::kDecision, communicator, body);
  }
}

void Coordinator::flush(uint32_t rank) {
  Peer& peer = peers_[rank];
  // An error shows again when this connection is read, and is dealt with there.
  const bool broken = !peer.channel->send_some().ok();
  const bool wants = !broken && peer.channel->has_output();
  if (wants != peer.watches_output &&
      watch(epoll_.get(), EPOLL_CTL_MOD, peer.channel->fd(), rank, wants ? EPOLLOUT : 0U).ok()) {
    peer.watches_output = wants;
  }
  if (closing_ && !wants) {
    peer.channel->end_output();
  }
}

void Coordinator::answer(const std::vector<GatherTable::Outcome>& outcomes) {
  for (const GatherTable::Outcome& outcome : outcomes) {
    const ControlConnection::Body error =
        outcome.error.ok() ? ControlConnection::Body() : outcome_body(outcome.error);
    for (const GatherTable::Waiter& waiter : outcome.waiters) {
      if (error) {
        send(waiter.rank, wire::Type::kGatherFailed, waiter.id, error);
        continue;
      }
      if (!takes_more(waiter.rank)) {
        continue;
      }
      for (const auto& part : outcome.parts) {  // all of them, however large they are together
        peers_[waiter.rank].channel->queue(wire::Type::kGathered, waiter.id, part);
      }
      flush(waiter.rank);
    }
  }
}

void Coordinator::answer_complete() {
  answer(std::exchange(complete_, {}));
}

void Coordinator::pronounce() {
  if (!failures_) {
    return;
  }
  const auto decisions = failures_->decide(Clock::now());
  if (decisions.empty()) {
    return;
  }
  send_decisions(decisions);
  end_gathers_of_left();
}

}  // namespace ho
