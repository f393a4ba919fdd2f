#include "exec/engine.hpp"

#include <algorithm>
#include <utility>

namespace ho {
namespace {

// How often a caller's stream is looked at that must get to a call first.
constexpr std::chrono::microseconds kEntryPoll{50};
constexpr uint64_t kLatencyBoundBytes = 512U << 10;

}  // namespace

Engine::Engine(const EngineOptions& options,
               std::unique_ptr<ShmTransport> shm,
               std::unique_ptr<Transport> network,
               std::shared_ptr<Recorder> recorder,
               EngineOwner& owner)
    : options_(options),
      shm_(std::move(shm)),
      network_(std::move(network)),
      recorder_(std::move(recorder)),
      driver_({options.spin, options.progress_cpus}, *this),
      collectives_({options.limits,
                    &owner,
                    options.work,
                    options.trace ? &trace_ : nullptr,
                    recorder_.get()}),
      messages_({options.self,
                 options.world_size,
                 options.communicator,
                 &owner,
                 shm_.get(),
                 network_.get(),
                 recorder_.get()}),
      failures_(owner, driver_, {}) {}

Result<std::unique_ptr<Engine>> Engine::create(const EngineOptions& options,
                                               std::unique_ptr<ShmTransport> shm,
                                               std::unique_ptr<Transport> network,
                                               EngineOwner& owner) {
  HORING_ASSIGN(auto sleeper, Sleeper::create(*shm, network.get(), options.work));
  HORING_ASSIGN(auto recorder, Recorder::create());
  std::unique_ptr<Engine> engine(
      new Engine(options, std::move(shm), std::move(network), std::move(recorder), owner));
  engine->sleeper_ = std::move(sleeper);
  if (engine->network_ != nullptr && engine->network_->service() != Transport::Service::kNone) {
    engine->service_ = std::make_unique<LinkService::Member>(
        LinkService::of_process(), [served = engine.get()] { return served->serve(); });
  }
  return engine;
}

void Engine::close() {
  {
    Driver::Lock lock = driver_.lock();
    if (closed_) {
      return;
    }
    closing_ = true;
    sleeper_->wake();  // another thread may drive, and sleep until a deadline
    driver_.drive(
        lock, [this] { return !active(); }, Deadline::max());
    closed_ = true;
  }
  driver_.stop();
  service_.reset();
  if (network_ != nullptr && !failures_.cause()) {
    network_->linger(deadline_after(network_->linger_time()));
  }
  shm_->close();
}

Engine::~Engine() {
  close();
}

Result<std::shared_ptr<Operation>> Engine::submit(Submission submission) {
  note_call();
  Driver::Lock lock = driver_.lock();
  const bool background = submission.background;
  auto operation =
      collectives_.submit(std::move(submission), failures_.cause(), failures_.leave_notices());
  if (operation.ok()) {
    start_moving(lock, background);
  }
  return operation;
}

Result<std::shared_ptr<Operation>> Engine::submit(Transfer transfer, bool background) {
  note_call();
  Driver::Lock lock = driver_.lock();
  auto operation = messages_.submit(
      std::move(transfer), background, failures_.cause(), failures_.leave_notices());
  if (operation.ok()) {
    start_moving(lock, background);
  }
  return operation;
}

bool Engine::serve() {
  const auto lock = driver_.lock_if_idle();
  if (!lock || failures_.cause()) {
    return false;
  }
  // What it returns it returns again to who drives next.
  static_cast<void>(network_->progress());
  note_rail_use();
  return network_->service() == Transport::Service::kSoon;
}

void Engine::start_moving(Driver::Lock& lock, bool background) {
  if (background) {
    driver_.turn_once(lock);
    driver_.drive_in_background();
  }
  if (driver_.driving()) {
    sleeper_->wake();
  }
}

void Engine::note_call() const {
  if (options_.threads != nullptr) {
    options_.threads->add();
  }
}

void Engine::wait_for(Driver::Lock& lock,
                      Operation& operation,
                      const std::function<bool()>& enough,
                      Deadline deadline) {
  if (deadline != Deadline::max()) {
    note_call();
    driver_.drive(lock, enough, deadline);
    return;
  }
  const CallingThreads::Waiting waiting(options_.threads.get());
  operation.hold();
  driver_.drive(lock, enough, deadline);
  operation.let_go();
}

std::optional<Status> Engine::wait(Operation& operation, Deadline deadline) {
  Driver::Lock lock = driver_.lock();
  wait_for(
      lock, operation, [&operation] { return operation.ended(); }, deadline);
  if (!operation.ended()) {
    return std::nullopt;
  }
  return operation.status();
}

std::optional<Status> Engine::join(Operation& operation,
                                   device::StreamHandle stream,
                                   Deadline deadline) {
  Driver::Lock lock = driver_.lock();
  wait_for(
      lock, operation, [&] { return operation.ended() || operation.joinable(); }, deadline);
  if (!operation.ended() && !operation.joinable()) {
    return std::nullopt;
  }
  if (operation.ended() && !operation.status().ok()) {
    return operation.status();
  }
  return operation.on_device() ? options_.work->make_wait(stream) : Status();
}

bool Engine::has_device_memory(const Operation& operation) {
  const Driver::Visit visit(driver_);
  return operation.on_device();
}

bool Engine::test(Operation& operation) {
  Driver::Lock lock = driver_.lock();
  if (!operation.ended()) {
    driver_.turn_once(lock);
  }
  return operation.ended();
}

Engine::Hold::Hold(Engine& engine, std::shared_ptr<Operation> operation)
    : waiting_(engine.options_.threads.get()), engine_(engine), operation_(std::move(operation)) {
  const Driver::Visit visit(engine_.driver_);
  operation_->hold();
}

Engine::Hold::~Hold() {
  const Driver::Visit visit(engine_.driver_);
  operation_->let_go();
}

bool Engine::turn(Driver::Lock& lock) {
  if (failures_.cause()) {
    end_all();
    return true;
  }
  if (failures_.leave_notices_new() && end_of_left()) {
    return true;
  }
  std::optional<RunError> error;
  const bool moved = move_all(error);
  wake_their_waiters();
  if (error) {
    fail_locally(lock, *error);
    return true;
  }
  return moved;
}

bool Engine::move_all(std::optional<RunError>& error) {
  Status status = shm_->progress();
  if (status.ok() && network_ != nullptr) {
    status = network_->progress();
  }
  if (!status.ok()) {
    error = RunError{status, std::nullopt};
    return false;
  }
  bool moved = false;
  if (options_.work != nullptr) {
    const Result<bool> completed = options_.work->look();
    if (!completed.ok()) {
      error =
          RunError{completed.status().with_context("looking for what has completed"), std::nullopt};
      return false;
    }
    moved = *completed;
  }
  moved |= collectives_.step(error);
  if (!error) {
    moved |= messages_.step(failures_.leave_notices(), !moved, error);
  }
  if (options_.work != nullptr && !error) {
    if (Status started = options_.work->start(); !started.ok()) {
      error = RunError{started.with_context("starting copies and sums"), std::nullopt};
    }
  }
  return moved;
}

void Engine::wake_their_waiters() {
  const bool collective = collectives_.take_woken();
  if (messages_.take_woken() || collective) {
    driver_.wake_waiters();
  }
}

bool Engine::latency_bound() const {
  return messages_.largest_bytes() <= kLatencyBoundBytes &&
         collectives_.largest_bytes() <= kLatencyBoundBytes;
}

bool Engine::has_background() const {
  return messages_.any_background() || collectives_.any_background();
}

void Engine::sleep(Driver::Lock& lock, Deadline deadline) {
  Deadline earliest = Deadline::max();
  RunWait wait = messages_.waits(&earliest);
  collectives_.add_waits(&wait, &earliest);
  if (closing_ && messages_.end_in_vain(Clock::now())) {
    wake_their_waiters();
    return;
  }
  if (passed(earliest)) {
    fail_locally(lock, late_operation());
    return;
  }
  Deadline next_question = Deadline::max();
  if (const auto due = collectives_.take_due_questions(Clock::now(), &next_question);
      !due.empty()) {
    failures_.ask(lock, due);
    return;  // what has come meanwhile goes first
  }
  Deadline until = std::min({deadline, earliest, next_question});
  if (options_.work != nullptr && collectives_.any_awaits_entry()) {
    until = std::min(until, Clock::now() + kEntryPoll);
  }
  note_waits();
  const int64_t began = now_ns();
  sleeper_->sleep(lock, wait, until);
  collectives_.add_wait_ns(now_ns() - began);
}

void Engine::note_waits() {
  collectives_.note_waits();
  if (network_ != nullptr) {
    note_rail_use();
  }
}

void Engine::note_rail_use() {
  const std::span<const RailUse> rails = network_->rail_use();
  recorder_->set_rail_use(rails);
  if (options_.trace) {
    trace_.note_rails(rails, now_ns());
  }
}

RunError Engine::late_operation() const {
  auto late = messages_.late();
  if (!late) {
    late = collectives_.late();
  }
  return late ? *std::move(late)
              : RunError{{StatusCode::kInternal, "a deadline passed that belongs to no operation"},
                         std::nullopt};
}

void Engine::fail(const Status& why) {
  const Driver::Visit visit(driver_);
  failures_.fail(why);
  sleeper_->wake();
}

Status Engine::fail_everywhere(const RunError& error) {
  Driver::Visit visit(driver_);
  fail_locally(visit.lock(), error);
  return failures_.cause().value_or(Status());
}

void Engine::fail_locally(Driver::Lock& lock, const RunError& error) {
  const bool everything = failures_.decide(
      lock,
      error,
      {[this] { return end_of_left(); }, [this] { return collectives_.calls_up_to_first(); }});
  if (everything) {
    end_all();
  }
}

void Engine::end_all() {
  if (options_.work != nullptr) {
    options_.work->forget_unstarted();
  }
  const Status cause = failures_.cause().value_or(Status());
  collectives_.end_all(cause);
  messages_.end_all(cause);
  wake_their_waiters();
}

// Where the transport would still use the memory of those that ended, nothing may move any more.
bool Engine::end_of_left() {
  failures_.took_leave_notices();
  bool any = false;
  for (const EndedByLeave& ended : {messages_.end_of_left(failures_.leave_notices()),
                                    collectives_.end_of_left(failures_.leave_notices())}) {
    any |= ended.any;
    if (ended.abandoned && network_ != nullptr && !network_->forgets_abandoned()) {
      failures_.fail(*ended.abandoned);
    }
  }
  wake_their_waiters();
  return any;
}

void Engine::peer_left(PeerLeaveNotice leave_notice) {
  const Driver::Visit visit(driver_);
  failures_.peer_left(std::move(leave_notice));
  sleeper_->wake();
}

void Engine::no_more_leave_notices() {
  const Driver::Visit visit(driver_);
  if (network_ != nullptr) {
    network_->watch_unconnected_peers();
  }
  failures_.no_more_leave_notices();
}

Status Engine::status() {
  const Driver::Visit visit(driver_);
  return failures_.cause().value_or(Status());
}

Status Engine::first_left() {
  const Driver::Visit visit(driver_);
  return failures_.leave_notices().any();
}

Status Engine::compare_call(const MadeCall& peer) {
  const Driver::Visit visit(driver_);
  return collectives_.compare(peer);
}

std::vector<ChannelState> Engine::states() {
  const Driver::Visit visit(driver_);
  std::vector<ChannelState> states = collectives_.states();
  if (auto messages = messages_.state()) {
    states.push_back(*std::move(messages));
  }
  return states;
}

EngineProgress Engine::progress() {
  const Driver::Visit visit(driver_);
  return {failures_.cause().has_value(), collectives_.progress(), messages_.pairs()};
}

uint64_t Engine::memory_bytes() {
  const Driver::Lock lock = driver_.lock();
  return shm_->memory_bytes() + (network_ != nullptr ? network_->memory_bytes() : 0) +
         (options_.work != nullptr ? options_.work->memory_bytes() : 0) + messages_.memory_bytes() +
         collectives_.memory_bytes();
}

}  // namespace ho
