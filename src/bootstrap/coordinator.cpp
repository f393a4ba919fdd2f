// One epoll loop over all ranks; nothing in it blocks. The thread owns everything but the wake
// descriptor, through which the destructor tells it to stop: there is no lock because nothing is
// shared.
//
// Its life: meet (coordinator_rendezvous.cpp: admit ranks until all are here or the earliest
// deadline of any rank passes), serve (all-gathers, reports, ranks that go), announce the shutdown
// (coordinator_shutdown.cpp).
#include "bootstrap/coordinator.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <utility>

#include "base/log.hpp"
#include "bootstrap/rank_names.hpp"

namespace ho {
namespace {

// One by one; then one a minute.
constexpr uint32_t kMaxRefusalsTold = 32;

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
    turn(next_deadline());
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

void Coordinator::turn(Deadline end) {
  constexpr int64_t kLongestMs = 10'000;
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left(end)).count();
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(
      epoll_.get(), events.data(), events.size(), static_cast<int>(std::min(ms, kLongestMs)));
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    if (event.data.u64 == kWakeToken) {
      stop_ = true;
    } else if (event.data.u64 != kAcceptorToken) {  // the acceptor's step comes after each turn
      handle_peer(static_cast<uint32_t>(event.data.u64), event.events);
    }
  }
  answer_complete();
}

void Coordinator::handle_peer(uint32_t rank, uint32_t events) {
  if (peers_[rank].channel == nullptr) {
    return;
  }
  if ((events & EPOLLOUT) != 0) {
    flush(rank);
  }
  const Result<bool> open = peers_[rank].channel->read_some();
  // What came before the end counts: it may be the goodbye.
  while (peers_[rank].channel != nullptr) {
    auto message = peers_[rank].channel->next();
    if (!message.ok()) {
      peer_closed(rank, message.status().message());
      return;
    }
    if (!message->has_value()) {
      break;
    }
    handle_message(rank, std::move(**message));
  }
  if (peers_[rank].channel == nullptr || (open.ok() && *open)) {
    return;
  }
  if (peers_[rank].shutdown_heard) {
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
    peer_closed(rank, status.message());
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
        send_to_all(wire::Type::kStateQuery, nullptr, communicator);
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
      spread(std::move(leave_notice));
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
  failures_->rank_gone(
      rank, how.empty() ? how : name + " sent a malformed control message: " + how, Clock::now());
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
// messages are only queued here, and sent a moment later to those who are still there. Whoever is
// through with this communicator hears nothing of it any more; who has said that it leaves still
// waits for its own requests, perhaps for what this rank will not send. Where a decision is due,
// that is the news: all shall hear the first cause, not who left because of it.
void Coordinator::spread(LeaveNotice leave_notice) {
  if (failures_->has_cause(leave_notice.communicator)) {
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
    const bool outside = failures_->is_outside(rank, leave_notice.communicator);
    if (!wanted[rank] || outside || peers_[rank].channel == nullptr) {
      continue;
    }
    ControlConnection::Body body = to_most;
    if (const auto pair = pair_with.find(rank); pair != pair_with.end()) {
      leave_notice.pairs = {pair->second};
      body = ControlConnection::body_of(wire::encode(leave_notice));
    }
    peers_[rank].channel->queue(wire::Type::kDeparted, 0, std::move(body));
  }
  constexpr std::chrono::milliseconds kPause{5};
  leave_notices_due_ = std::min(leave_notices_due_, Clock::now() + kPause);
}

void Coordinator::send_leave_notices(Deadline now) {
  if (leave_notices_due_ > now) {
    return;
  }
  leave_notices_due_ = Deadline::max();
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
      send(member, wire::Type::kCallQuestion, 0, body);
    }
  }
}

void Coordinator::send(uint32_t rank,
                       wire::Type type,
                       uint64_t id,
                       const ControlConnection::Body& body) {
  if (peers_[rank].channel != nullptr) {
    peers_[rank].channel->queue(type, id, body);
    flush(rank);
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
      }
      for (const auto& part : outcome.parts) {
        send(waiter.rank, wire::Type::kGathered, waiter.id, part);
      }
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
