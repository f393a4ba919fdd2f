// Callers of any thread queue messages under the lock and send what the socket takes; the receiving
// thread sends the rest, reads, keeps the deadlines (of reports and all-gathers that nobody
// answers) and calls back. It never calls back with the lock held.
//
// A decision or a leave notice may come before start(): it is kept and delivered by the same thread
// once it may. The all-gathers are in control_client_gather.cpp.
#include "bootstrap/control/control_client.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/log.hpp"

namespace ho {
namespace {

constexpr std::chrono::milliseconds kGoodbyeTime{250};

int poll_ms(Deadline deadline) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left(deadline)).count();
  return static_cast<int>(std::min<int64_t>(ms, 60'000));
}

template <typename News>
void call_for_each(const std::function<void(const News&)>& callback, const std::vector<News>& all) {
  if (callback) {
    std::ranges::for_each(all, callback);
  }
}

}  // namespace

ControlClient::ControlClient(const Rendezvous& rendezvous, Setup& setup)
    : rendezvous_(rendezvous),
      failover_(setup.failover),
      key_(std::move(setup.key)),
      local_address_(std::move(setup.local_address)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      connection_(std::move(setup.fd), setup.failover.on) {}

Result<std::unique_ptr<ControlClient>> ControlClient::create(const Rendezvous& rendezvous,
                                                             Setup setup) {
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  std::unique_ptr<ControlClient> client(new ControlClient(rendezvous, setup));
  if (setup.start_coordinator) {
    HORING_ASSIGN(client->coordinator_, setup.start_coordinator());
  }
  if (!client->wake_.valid()) {
    const Status why = system_error("eventfd for the control plane", errno);
    client->report({why.code(), GlobalRank(rendezvous.rank), std::nullopt, why.message()});
    return why;
  }
  HORING_TRY(client->await_welcome(setup.deadline, setup.rank_0_later));
  if (client->connection_.keeps()) {
    client->offer_addresses();
  }
  client->thread_ = std::thread([raw = client.get()] { raw->run(); });
  return client;
}

// Until the coordinator has counted it, where a path is lost: it would take the end of this
// process for a failure.
void ControlClient::say_goodbye() {
  constexpr std::chrono::seconds kComeBackTime{10};
  Lock lock(mutex_);
  tell(wire::Type::kGoodbye);
  goodbye_said_ = true;
  wake();
  const auto heard = [this] { return !connected_ || connection_.all_counted(); };
  if (changed_.wait_for(lock, kGoodbyeTime, heard)) {
    return;
  }
  const Deadline end = deadline_after(kComeBackTime);
  const auto path_is_lost = [this] {
    const auto details = tcp::look_at_connection(connection_.fd());
    return !connection_.is_open() || connection_.awaits_count() ||
           (details && tcp::unanswered(*details));
  };
  while (!heard() && !passed(end) && path_is_lost()) {
    changed_.wait_for(lock, kGoodbyeTime, heard);
  }
}

ControlClient::~ControlClient() {
  if (connection_.keeps() && thread_.joinable()) {
    say_goodbye();
  }
  {
    const Lock lock(mutex_);
    stop_ = true;
  }
  wake();
  if (thread_.joinable()) {
    thread_.join();
  }
  if (connected_) {
    if (!goodbye_said_) {
      tell(wire::Type::kGoodbye);
    }
    const Deadline end = deadline_after(kGoodbyeTime);
    bool open = true;
    bool ended = false;
    // Until the coordinator has closed too: a close with unread input would be a reset, which can
    // overtake the goodbye.
    while (open && !passed(end)) {
      open = connection_.send_some().ok();
      if (open && !ended && !connection_.has_output()) {
        connection_.end_output();
        ended = true;
      }
      pollfd entry{.fd = connection_.fd(),
                   .events = static_cast<short>(ended ? POLLIN : POLLIN | POLLOUT),
                   .revents = 0};
      ::poll(&entry, 1, poll_ms(end));
      const auto more = connection_.read_some();
      open = open && more.ok() && *more;
    }
  }
  coordinator_.reset();
}

Result<std::optional<wire::Message>> ControlClient::receive(Deadline deadline) {
  while (true) {
    HORING_ASSIGN(auto message, connection_.next());
    if (message.has_value()) {
      return message;
    }
    // What is there when the deadline passes still counts: this process may have been stopped.
    const bool last = passed(deadline);
    pollfd entry{.fd = connection_.fd(), .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, poll_ms(deadline));
    HORING_ASSIGN(const bool open, connection_.read_some());
    if (open && !last) {
      continue;
    }
    HORING_ASSIGN(message, connection_.next());
    if (message.has_value() || open) {
      return message;
    }
    connected_ = false;
    return Status(
        StatusCode::kPeerLost,
        "rank 0 closed the connection before all ranks had found each other; see its output");
  }
}

// Rank 0 answers when it sees this rank's deadline pass, if not before. The moment that its answer
// needs is counted from when this rank sees so too: where both were stopped, both have it.
Status ControlClient::await_welcome(Deadline deadline, std::chrono::nanoseconds rank_0_later) {
  const std::string self = "rank " + std::to_string(rendezvous_.rank);
  HORING_ASSIGN(auto message, receive(bounded(deadline) + rank_0_later));
  if (!message.has_value()) {
    HORING_ASSIGN(message, receive(deadline_after(kAnswerGrace)));
  }
  if (!message.has_value()) {
    return {
        StatusCode::kTimeout,
        self +
            ": rank 0 was reached but did not say who is missing before the deadline; it may be "
            "stopped"};
  }
  if (message->header.type == wire::Type::kRefusal) {
    HORING_ASSIGN(const wire::Outcome outcome, wire::decode<wire::Outcome>(message->body));
    return {outcome.code, outcome.text};
  }
  if (message->header.type != wire::Type::kWelcome) {
    return {StatusCode::kProtocol, self + ": rank 0 sent something other than a welcome"};
  }
  HORING_ASSIGN(welcome_, wire::decode<wire::Welcome>(message->body));
  if (rendezvous_.rank == 0 && !welcome_.coordinator_address.empty()) {
    local_address_ = welcome_.coordinator_address;
  }
  return {};
}

void ControlClient::tell(wire::Type type, uint64_t id, ControlConnection::Body body) {
  if (connected_ && !coordinator_left_) {
    connection_.queue(type, id, std::move(body));
    (void)connection_.send_some();  // an error shows when reading
  }
}

void ControlClient::wake() const {
  ::eventfd_write(wake_.get(), 1);
}

int ControlClient::wait_ms() {
  const Lock lock(mutex_);
  Deadline next = Deadline::max();
  if (redial_ != nullptr && connected_) {
    next = is_away() ? Clock::now() + PeerPaths::kStep : look_due_;
  }
  for (const auto& [communicator, reported] : reported_) {
    next = connected_ && is_away() ? next : std::min(next, reported.answer_due);
  }
  for (const auto& [id, gather] : gathers_) {
    next = gather.ended.has_value() ? next : std::min(next, gather.due);
  }
  return poll_ms(next);
}

void ControlClient::run() {
  if (connection_.keeps()) {
    read_input();  // what has come with the welcome
  }
  while (true) {
    turn();
    deliver();
    const Lock lock(mutex_);
    if (stop_) {
      return;
    }
  }
}

void ControlClient::turn() {
  std::array<pollfd, 2> entries{};
  entries[0] = {.fd = wake_.get(), .events = POLLIN, .revents = 0};
  {
    const Lock lock(mutex_);
    const bool output = connected_ && connection_.has_output();
    entries[1] = {.fd = connected_ ? connection_.fd() : -1,
                  .events = static_cast<short>(POLLIN | (output ? POLLOUT : 0)),
                  .revents = 0};
  }
  // Before the look, not after it: a process may be stopped anywhere, and finds the answer before
  // it finds that it is late.
  const Deadline looked = Clock::now();
  ::poll(entries.data(), entries.size(), wait_ms());
  if (entries[0].revents != 0) {
    eventfd_t ignored = 0;
    ::eventfd_read(wake_.get(), &ignored);
  }
  if ((entries[1].revents & POLLOUT) != 0) {
    const Lock lock(mutex_);
    (void)connection_.send_some();  // an error shows when reading
  }
  if (entries[1].revents != 0) {
    read_input();
  }
  come_back();
  check_reports_answered(looked);
  if ((entries[1].revents & POLLIN) == 0) {
    end_overdue_gathers(looked);
  }
}

void ControlClient::read_input() {
  const Result<bool> open = connection_.read_some();
  while (true) {
    const auto message = next_message();
    if (!message.ok()) {
      coordinator_closed(message.status().message());
      return;
    }
    if (!message->has_value()) {
      break;
    }
    handle(**message);
  }
  if (!open.ok()) {
    lost(open.status().message());
  } else if (!*open) {
    lost({});
  }
}

// One that keeps messages may send while it reads: others do so, too.
Result<std::optional<wire::Message>> ControlClient::next_message() {
  if (!connection_.keeps()) {
    return connection_.next();
  }
  const Lock lock(mutex_);
  const bool awaited = connection_.awaits_count();
  auto message = connection_.next();
  (void)connection_.send_some();  // an error shows when reading
  if (awaited && !connection_.awaits_count()) {
    redial_->went_on(connection_.fd());
    for (auto& [communicator, reported] : reported_) {
      reported.answer_due = Clock::now() + kAnswerTime;
    }
  }
  changed_.notify_all();
  return message;
}

template <typename News>
void ControlClient::keep(const wire::Message& message, std::vector<News>& undelivered) {
  auto news = wire::decode<News>(message.body);
  if (!news.ok()) {
    settle(kWholeJob, news.status());
    return;
  }
  const Lock lock(mutex_);
  undelivered.push_back(std::move(*news));
}

void ControlClient::handle(const wire::Message& message) {
  switch (message.header.type) {
    case wire::Type::kLeaveNotice:
      keep(message, leave_notices_);
      return;
    case wire::Type::kCallQuestion:
      keep(message, questions_);
      return;
    case wire::Type::kGathered:
    case wire::Type::kGatherFailed: {
      const Lock lock(mutex_);
      // A call that gave up meanwhile is no longer there.
      const auto entry = gathers_.find(message.header.id);
      if (entry != gathers_.end()) {
        take_part(entry->second, message);
      }
      return;
    }
    case wire::Type::kAddresses:
      take_addresses(message);
      return;
    case wire::Type::kStateQuery:
      answer_query(message.header.id);
      return;
    case wire::Type::kStatusQuestion:
    case wire::Type::kStatusReport:
      handle_status(message);
      return;
    case wire::Type::kDecision: {
      const auto outcome = wire::decode<wire::Outcome>(message.body);
      settle(outcome.ok() ? message.header.id : kWholeJob,
             outcome.ok() ? Status(outcome->code, outcome->text) : outcome.status());
      return;
    }
    case wire::Type::kRefusal: {  // over a connection that took a lost one's place
      const auto outcome = wire::decode<wire::Outcome>(message.body);
      coordinator_closed(outcome.ok() ? outcome->text : outcome.status().message());
      return;
    }
    case wire::Type::kShutdown: {
      // It hears everybody out before it decides and closes: this says that no more will come.
      const Lock lock(mutex_);
      tell(wire::Type::kGoodbye);
      coordinator_left_ = true;
      return;
    }
    default:
      log_warn("control plane: rank 0 sent a message of unexpected type {}",
               static_cast<int>(message.header.type));
  }
}

void ControlClient::answer_query(uint64_t id) {
  std::function<std::vector<RankState>()> claim_text;
  {
    const Lock lock(mutex_);
    if (callbacks_.has_value()) {
      claim_text = callbacks_->state_of;
    }
  }
  const std::vector<RankState> states = claim_text ? claim_text() : std::vector<RankState>();
  const Lock lock(mutex_);
  tell(wire::Type::kStates, id, ControlConnection::body_of(states));
}

void ControlClient::coordinator_closed(const std::string& how) {
  const Lock lock(mutex_);
  connected_ = false;
  listener_close_on_fork_.set(CloseOnFork::kNone);
  listener_.reset();
  changed_.notify_all();
  connection_.end_output();  // a coordinator that leaves waits for this
  if (coordinator_left_) {
    coordinator_end_ = welcome_.coordinator + " has left: it destroyed its communicator";
  } else {
    coordinator_end_ = welcome_.coordinator + " is gone: its control connection " +
                       (how.empty() ? "closed without a goodbye" : "broke (" + how + ")") +
                       " (killed, crashed, or the host is down); see the output of that rank";
    if (!job_decision_.has_value()) {
      decisions_.push_back({.cause = Status(StatusCode::kPeerLost, coordinator_end_),
                            .communicator = kWholeJob,
                            .coordinator_gone = true});
    }
  }
  end_all_gathers({StatusCode::kPeerLost, coordinator_end_});
  // Nobody will answer a report any more.
  for (auto& [communicator, reported] : reported_) {
    reported.answer_due = Clock::now();
  }
}

bool ControlClient::settled(uint64_t communicator) const {
  const auto entry = joined_.find(communicator);
  return job_decision_.has_value() || (entry != joined_.end() && entry->second.cause.has_value());
}

void ControlClient::settle(uint64_t communicator, Status cause, bool unanswered) {
  const Lock lock(mutex_);
  reported_.erase(communicator);
  const auto entry = joined_.find(communicator);
  if (settled(communicator) || (communicator != kWholeJob && entry == joined_.end())) {
    return;  // or this rank has left it meanwhile
  }
  if (communicator == kWholeJob) {
    end_all_gathers(cause);
    job_decision_ = cause;
    reported_.clear();
  } else {
    entry->second.cause = cause;
    end_gathers_now(entry->second.tag_end, cause);
  }
  decisions_.push_back(
      {.cause = std::move(cause), .communicator = communicator, .unanswered = unanswered});
}

void ControlClient::check_reports_answered(Deadline looked) {
  std::vector<FailureDecision> own;
  {
    const Lock lock(mutex_);
    for (const auto& [communicator, reported] : reported_) {
      if (reported.answer_due > looked || (connected_ && is_away())) {
        continue;
      }
      const std::string why =
          connected_
              ? "; coordinator rank 0 does not answer: " + welcome_.coordinator + " may be stopped"
              : std::string("; rank 0 ") + (coordinator_left_ ? "has left already" : "is gone") +
                    ", so no other rank could be asked";
      const auto& peer = reported.failure.peer;
      const std::string who =
          peer ? "; that peer is rank " + std::to_string(peer->value()) + " of the job" : "";
      std::string text = reported.failure.text;
      text.append(who).append(why);
      own.push_back({.cause = Status(reported.failure.code, std::move(text)),
                     .communicator = communicator,
                     .unanswered = true});
    }
  }
  for (FailureDecision& decision : own) {
    settle(decision.communicator, std::move(decision.cause), true);
  }
}

void ControlClient::deliver() {
  Callbacks callbacks;
  std::vector<FailureDecision> decisions;
  std::vector<LeaveNotice> leave_notices;
  std::vector<CallQuestion> questions;
  bool ended = false;
  {
    const Lock lock(mutex_);
    if (!callbacks_.has_value() || stop_) {
      return;
    }
    callbacks = *callbacks_;
    decisions.swap(decisions_);
    leave_notices.swap(leave_notices_);
    questions.swap(questions_);
    ended = !connected_ && !std::exchange(coordinator_end_reported_, true);
  }
  call_for_each(callbacks.on_decision, decisions);
  call_for_each(callbacks.on_leave_notice, leave_notices);
  call_for_each(callbacks.on_call_question, questions);
  if (ended && callbacks.on_coordinator_end) {
    callbacks.on_coordinator_end();
  }
}

void ControlClient::start(Callbacks callbacks) {
  {
    const Lock lock(mutex_);
    callbacks_ = std::move(callbacks);
  }
  wake();  // a decision may be waiting
}

void ControlClient::join(const Membership& membership, std::string_view tag_end) {
  const Lock lock(mutex_);
  joined_.emplace(membership.communicator, Joined{.tag_end = std::string(tag_end), .cause = {}});
  tell(wire::Type::kJoined, 0, ControlConnection::body_of(membership));
}

void ControlClient::release(uint64_t communicator) {
  const Lock lock(mutex_);
  joined_.erase(communicator);
  reported_.erase(communicator);
  tell(wire::Type::kReleased, communicator);
}

void ControlClient::report(const FailureReport& failure) {
  {
    const Lock lock(mutex_);
    // An abort of what has ended still ends what was split from it.
    const bool over = settled(failure.communicator);
    if (over && failure.code != StatusCode::kAborted) {
      return;
    }
    const Deadline due = Clock::now() + (connected_ ? kAnswerTime : std::chrono::milliseconds(0));
    if (!over) {
      reported_.emplace(failure.communicator, Reported{.failure = failure, .answer_due = due});
    }
    tell(wire::Type::kReport, 0, ControlConnection::body_of(failure));
  }
  wake();
}

template <typename News>
void ControlClient::tell_unless_settled(wire::Type type, const News& news) {
  const Lock lock(mutex_);
  // After a decision all ranks have a cause already.
  if (settled(news.communicator)) {
    return;
  }
  tell(type, 0, ControlConnection::body_of(news));
  if (connection_.has_output()) {
    wake();
  }
}

void ControlClient::ask(const CallQuestion& question) {
  tell_unless_settled(wire::Type::kCallQuestion, question);
}

void ControlClient::leave(const LeaveNotice& leave_notice) {
  tell_unless_settled(wire::Type::kLeaving, leave_notice);
}

}  // namespace ho
