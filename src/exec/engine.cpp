#include "exec/engine.hpp"

#include <spdlog/fmt/fmt.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/log.hpp"
#include "os/affinity.hpp"

namespace ho {
namespace {

// How long the end of an engine waits for its last bytes to reach the peers' hosts.
constexpr std::chrono::milliseconds kLinger{1000};
// How long what a device was given before an error may take to complete.
constexpr std::chrono::seconds kDeviceDrain{5};
constexpr int kYieldsForLatency = 16;
constexpr int kYieldsForThroughput = 4;
constexpr uint64_t kLatencyBoundBytes = 512U << 10;

Status watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
    return system_error("epoll_ctl", errno);
  }
  return {};
}

}  // namespace

Engine::Engine(const EngineOptions& options,
               std::unique_ptr<ShmTransport> shm,
               std::unique_ptr<Transport> network,
               EngineOwner& owner)
    : options_(options),
      shm_(std::move(shm)),
      network_(std::move(network)),
      owner_(owner),
      messages_(message_options()) {}

Result<std::unique_ptr<Engine>> Engine::create(const EngineOptions& options,
                                               std::unique_ptr<ShmTransport> shm,
                                               std::unique_ptr<Transport> network,
                                               EngineOwner& owner) {
  std::unique_ptr<Engine> engine(new Engine(options, std::move(shm), std::move(network), owner));
  engine->epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!engine->epoll_.valid()) {
    return system_error("epoll_create1", errno);
  }
  HORING_TRY(watch(engine->epoll_.get(), engine->shm_->wait_fd()));
  if (engine->network_ != nullptr) {
    HORING_TRY(watch(engine->epoll_.get(), engine->network_->wait_fd()));
  }
  if (options.work != nullptr) {
    HORING_TRY(watch(engine->epoll_.get(), options.work->wait_fd()));
  }
  return engine;
}

void Engine::close() {
  {
    Lock lock(mutex_);
    if (stopping_) {
      return;
    }
    closing_ = true;
    shm_->wake();  // another thread may drive, and sleep until a deadline
    drive(
        lock, [this] { return !any_active(); }, Deadline::max());
    stopping_ = true;
    changed_.notify_all();
  }
  if (progress_.joinable()) {
    progress_.join();
  }
  if (network_ != nullptr && !broken_) {
    network_->linger(deadline_after(kLinger));
  }
  shm_->close();
}

Engine::~Engine() {
  close();
}

Result<std::shared_ptr<Operation>> Engine::submit(Call call,
                                                  std::shared_ptr<const Schedule> schedule,
                                                  bool background,
                                                  std::shared_ptr<const PartToCome> next,
                                                  std::optional<device::Event> entry) {
  note_call();
  Lock lock(mutex_);
  auto operation = std::make_shared<Operation>();
  operation->background_ = background;
  OperationPlace& place = operation->place_;
  Counters& counters = counters_.at(call.channel);
  call.sequence = counters.entered + 1;
  place.channel = call.channel;
  place.number = call.sequence;
  if (broken_) {
    return broken_->with_context(call.name());
  }
  if (const auto departed = leave_notices_.against(place)) {
    return departed->with_context(call.name());
  }
  counters.entered = call.sequence;
  counters.last = call.collective;
  operation->call_ = {call.channel, call.labelled ? ++labelled_ : 0, call.frame()};
  calls_.add(operation->call_);
  operation->run_ = std::make_unique<Run>(
      std::move(call), std::move(schedule), options_.limits, options_.trace ? &trace_ : nullptr);
  operation->next_ = std::move(next);
  operation->on_device_ = entry.has_value();
  operation->entry_ = std::move(entry);
  lanes_[place.channel].push_back(operation);
  if (background) {
    if (!driving_) {
      (void)turn(lock);
    }
    ensure_progress_thread();
    changed_.notify_all();
  }
  if (driving_) {
    shm_->wake();
  }
  return operation;
}

void Engine::note_call() const {
  if (options_.threads != nullptr) {
    options_.threads->add();
  }
}

void Engine::drive_for(Lock& lock,
                       Operation& operation,
                       const std::function<bool()>& enough,
                       Deadline deadline) {
  if (deadline != Deadline::max()) {
    note_call();
    drive(lock, enough, deadline);
    return;
  }
  const CallingThreads::Waiting waiting(options_.threads.get());
  ++operation.held_count_;
  drive(lock, enough, deadline);
  --operation.held_count_;
}

std::optional<Status> Engine::wait(Operation& operation, Deadline deadline) {
  Lock lock(mutex_);
  drive_for(
      lock, operation, [&operation] { return operation.ended_; }, deadline);
  if (!operation.ended_) {
    return std::nullopt;
  }
  return operation.status_;
}

std::optional<Status> Engine::join(Operation& operation,
                                   device::StreamHandle stream,
                                   Deadline deadline) {
  Lock lock(mutex_);
  drive_for(
      lock, operation, [&] { return operation.ended_ || is_enqueued(operation); }, deadline);
  if (!operation.ended_ && !is_enqueued(operation)) {
    return std::nullopt;
  }
  if (operation.ended_ && !operation.status_.ok()) {
    return operation.status_;
  }
  return operation.on_device_ ? options_.work->make_wait(stream) : Status();
}

bool Engine::is_enqueued(const Operation& operation) {
  return operation.on_device_ && operation.started_ && !operation.next_ &&
         operation.run_->enqueued();
}

bool Engine::has_device_memory(const Operation& operation) {
  const Caller caller(callers_);
  const Lock lock(mutex_);
  return operation.on_device_;
}

Status Engine::status() {
  const Caller caller(callers_);
  const Lock lock(mutex_);
  return broken_.value_or(Status());
}

Status Engine::first_left() {
  const Caller caller(callers_);
  const Lock lock(mutex_);
  return leave_notices_.any();
}

Engine::Hold::Hold(Engine& engine, std::shared_ptr<Operation> operation)
    : waiting_(engine.options_.threads.get()), engine_(engine), operation_(std::move(operation)) {
  const Caller caller(engine_.callers_);
  const Lock lock(engine_.mutex_);
  ++operation_->held_count_;
}

Engine::Hold::~Hold() {
  const Caller caller(engine_.callers_);
  const Lock lock(engine_.mutex_);
  --operation_->held_count_;
}

bool Engine::test(Operation& operation) {
  Lock lock(mutex_);
  if (!operation.ended_ && !driving_) {
    (void)turn(lock);
  }
  return operation.ended_;
}

void Engine::wake_waiters() {
  if (waiters_ > 0 || progress_.joinable()) {
    changed_.notify_all();
  }
}

bool Engine::any_active() const {
  return messages_.active() || std::any_of(lanes_.begin(), lanes_.end(), [](const auto& lane) {
           return !lane.second.empty();
         });
}

bool Engine::any_background() const {
  const bool message = std::any_of(
      message_operations_.begin(), message_operations_.end(), [](const auto& operation) {
        return operation.second->background_;
      });
  return message || std::any_of(lanes_.begin(), lanes_.end(), [](const auto& lane) {
           return std::any_of(lane.second.begin(), lane.second.end(), [](const auto& operation) {
             return operation->background_;
           });
         });
}

void Engine::let_callers_in(Lock& lock) const {
  if (callers_ > 0) {
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
}

void Engine::drive(Lock& lock, const std::function<bool()>& enough, Deadline deadline) {
  while (!enough()) {
    if (driving_) {
      // Another thread drives; it signals when an operation ends or can be joined, and when it
      // leaves.
      ++waiters_;
      auto woken = std::cv_status::no_timeout;
      if (deadline == Deadline::max()) {
        changed_.wait(lock);
      } else {
        woken = changed_.wait_until(lock, deadline);
      }
      --waiters_;
      if (woken == std::cv_status::timeout) {
        return;
      }
      continue;
    }
    driving_ = true;
    Idleness idleness;
    while (!enough() && !passed(deadline)) {
      let_callers_in(lock);
      if (turn(lock)) {
        idleness = {};
      } else {
        idle(lock, deadline, idleness);
      }
    }
    driving_ = false;
    wake_waiters();
    if (!enough() && passed(deadline)) {
      return;
    }
  }
}

// Where ranks outnumber cores, what this rank waits for is often about to be done by a rank that
// waits for this core: offering it is cheaper than going to sleep and being woken. It costs next to
// nothing when no other process wants to run, but adds up over a long transfer, which gains nothing
// by it.
void Engine::idle(Lock& lock, Deadline deadline, Idleness& idleness) {
  const int64_t now = now_ns();
  idleness.since_ns = idleness.since_ns == 0 ? now : idleness.since_ns;
  if (now - idleness.since_ns < options_.spin.count()) {
    return;
  }
  if (idleness.yields < (latency_bound() ? kYieldsForLatency : kYieldsForThroughput)) {
    ++idleness.yields;
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
    return;
  }
  sleep(lock, deadline);
}

bool Engine::latency_bound() const {
  return messages_.largest_bytes() <= kLatencyBoundBytes &&
         std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) {
           return lane.second.front()->run_->moved_bytes() <= kLatencyBoundBytes;
         });
}

bool Engine::turn(Lock& lock) {
  if (broken_) {
    end_all();
    return true;
  }
  if (leave_notices_new_ && end_departed()) {
    return true;
  }
  std::optional<RunError> error;
  if (Status status = shm_->progress(); !status.ok()) {
    error = RunError{status, std::nullopt};
  }
  if (network_ != nullptr && !error) {
    if (Status status = network_->progress(); !status.ok()) {
      error = RunError{status, std::nullopt};
    }
  }
  bool moved = false;
  if (options_.work != nullptr && !error) {
    if (const Result<bool> completed = options_.work->look(); completed.ok()) {
      moved = *completed;
    } else {
      error =
          RunError{completed.status().with_context("looking for what has completed"), std::nullopt};
    }
  }
  for (auto lane = lanes_.begin(); lane != lanes_.end() && !error;) {
    moved |= step_front(lane->second, error);
    lane = lane->second.empty() ? lanes_.erase(lane) : std::next(lane);
  }
  if (!error) {
    moved |= step_messages(moved, error);
  }
  if (options_.work != nullptr && !error) {
    if (Status status = options_.work->start(); !status.ok()) {
      error = RunError{status.with_context("starting copies and sums"), std::nullopt};
    }
  }
  if (error) {
    fail_locally(lock, *error);
    return true;
  }
  return moved;
}

std::optional<RunError> Engine::start_run(Operation& operation) {
  Run& run = *operation.run_;
  if (Status status = take_scratch(operation); !status.ok()) {
    return RunError{status.with_context(run.call().name()), std::nullopt};
  }
  operation.started_ = true;
  std::byte* const scratch = operation.pinned_scratch_ ? operation.pinned_scratch_->bytes().data()
                                                       : operation.scratch_.get();
  void* const on_device =
      operation.device_scratch_ ? operation.device_scratch_->pointer() : nullptr;
  run.start(scratch, static_cast<std::byte*>(on_device));
  return std::nullopt;
}

Status Engine::take_scratch(Operation& operation) {
  const uint64_t bytes = operation.run_->scratch_bytes();
  if (operation.run_->call().device.work != nullptr) {
    if (bytes > 0 &&
        (!operation.pinned_scratch_ || operation.pinned_scratch_->bytes().size() < bytes)) {
      HORING_ASSIGN(operation.pinned_scratch_, options_.work->take_pinned(bytes));
    }
    const uint64_t on_device = operation.run_->device_scratch_bytes();
    if (on_device > 0 &&
        (!operation.device_scratch_ || operation.device_scratch_->size() < on_device)) {
      HORING_ASSIGN(operation.device_scratch_, options_.work->take_device(on_device));
    }
    return {};
  }
  operation.scratch_ = std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[bytes + 64]);
  return operation.scratch_ != nullptr
             ? Status()
             : Status(StatusCode::kOutOfMemory,
                      fmt::format("{} bytes for what is on its way", bytes));
}

Result<bool> Engine::entered(Operation& operation) const {
  if (operation.entry_) {
    HORING_ASSIGN(const bool passed, options_.work->passed(*operation.entry_));
    if (!passed) {
      return false;
    }
    operation.entry_.reset();
  }
  return true;
}

bool Engine::any_not_entered() const {
  return std::any_of(lanes_.begin(), lanes_.end(), [](const auto& lane) {
    return lane.second.front()->entry_.has_value();
  });
}

// The next part has the operation's number, so that errors and traces name one operation.
std::optional<RunError> Engine::go_on(Operation& operation) {
  Result<NextPart> next = owner_.make_next_part(*std::exchange(operation.next_, {}));
  if (!next.ok()) {
    return RunError{next.status().with_context(operation.run_->call().name()), std::nullopt};
  }
  next->call.sequence = operation.run_->call().sequence;
  operation.earlier_ = operation.run_->report();
  operation.run_ = std::make_unique<Run>(std::move(next->call),
                                         std::move(next->schedule),
                                         options_.limits,
                                         options_.trace ? &trace_ : nullptr);
  operation.started_ = false;
  return std::nullopt;
}

bool Engine::step_front(Queue& queue, std::optional<RunError>& error) {
  Operation& operation = *queue.front();
  if (!operation.started_) {
    const Result<bool> may_start = entered(operation);
    if (may_start.ok() && !*may_start) {
      return false;
    }
    error = may_start.ok()
                ? start_run(operation)
                : RunError{may_start.status().with_context(operation.run_->call().name()),
                           std::nullopt};
  }
  bool moved = false;
  if (!error) {
    error = operation.run_->make_progress(&moved);
  }
  if (error) {
    return false;
  }
  if (!operation.joinable_ && is_enqueued(operation)) {
    operation.joinable_ = true;
    wake_waiters();
  }
  if (operation.run_->finished()) {
    Status status;
    if (operation.next_) {
      error = go_on(operation);
      if (!error || error->status.code() != StatusCode::kUnsupported) {
        return !error;
      }
      status = std::exchange(error, std::nullopt)->status;
    }
    const std::shared_ptr<Operation> ended = queue.front();
    queue.pop_front();
    count_completed(*ended);
    end(*ended, status);
    return true;
  }
  return moved;
}

void Engine::count_completed(const Operation& operation) {
  ++counters_.at(operation.place_.channel).completed;
}

void Engine::end(Operation& operation, const Status& status) {
  if (operation.started_ && operation.run_->call().device.work != nullptr) {
    // After an error no buffer may be touched any more, nor its memory reused before that.
    if (Status drained =
            status.ok() ? Status() : options_.work->drain(deadline_after(kDeviceDrain));
        !drained.ok()) {
      log_error("{}: {}", operation.run_->call().name(), drained.message());
    }
  }
  if (operation.pinned_scratch_) {
    options_.work->give_back(*std::exchange(operation.pinned_scratch_, std::nullopt));
  }
  if (operation.device_scratch_) {
    options_.work->give_back(*std::exchange(operation.device_scratch_, std::nullopt));
  }
  operation.report_ = operation.run_->report();
  operation.report_.add_earlier(operation.earlier_);
  operation.status_ = status;
  operation.ended_ = true;
  operation.scratch_.reset();
  operation.run_->free_scaled_input();
  wake_waiters();
}

uint32_t Engine::first_held(const Queue& queue) {
  const auto held = std::find_if(
      queue.begin(), queue.end(), [](const auto& operation) { return operation->held_count_ > 0; });
  return held == queue.end() ? 0 : (*held)->place_.number;
}

bool Engine::message_held() const {
  return std::any_of(message_operations_.begin(),
                     message_operations_.end(),
                     [](const auto& operation) { return operation.second->held_count_ > 0; });
}

std::vector<ChannelState> Engine::states() {
  const Caller caller(callers_);
  const Lock lock(mutex_);
  std::vector<ChannelState> states;
  for (uint8_t channel = 0; channel < kChannelCount; ++channel) {
    ChannelState state{
        channel, counters_.at(channel).entered, counters_.at(channel).completed, "", ""};
    for (const auto& [key, queue] : lanes_) {
      const Run& run = *queue.front()->run_;
      if (run.call().channel == channel && state.operation.empty()) {
        state.operation = std::string(to_string(run.call().collective));
        state.waiting = run.waiting_text();
        state.held = first_held(queue);
      }
    }
    // Collective channels are listed when idle too, so that a rank that has not called yet is
    // named.
    if (channel != kMessageChannel) {
      states.push_back(std::move(state));
    }
  }
  if (messages_.submitted() > 0) {
    states.push_back({kMessageChannel,
                      messages_.submitted(),
                      messages_.completed(),
                      messages_.active() ? "send/recv" : "",
                      messages_.waiting_text(),
                      message_held() ? messages_.submitted() : 0});
  }
  return states;
}

EngineProgress Engine::progress() {
  const Caller caller(callers_);
  const Lock lock(mutex_);
  EngineProgress progress;
  progress.failed = broken_.has_value();
  for (size_t channel = 0; channel < counters_.size(); ++channel) {
    const Counters& counters = counters_.at(channel);
    progress.channels.at(channel) = {counters.entered,
                                     counters.last ? std::string(to_string(*counters.last)) : ""};
  }
  progress.pairs = messages_.pairs();
  return progress;
}

uint64_t Engine::memory_bytes() {
  const Lock lock(mutex_);
  uint64_t bytes = shm_->memory_bytes() + (network_ != nullptr ? network_->memory_bytes() : 0) +
                   messages_.memory_bytes() +
                   (options_.work != nullptr ? options_.work->memory_bytes() : 0);
  for (const auto& [key, queue] : lanes_) {
    for (const auto& operation : queue) {
      bytes += operation->scratch_ != nullptr ? operation->run_->scratch_bytes() : 0;
      bytes += operation->run_->call().scaled_bytes;
    }
  }
  return bytes;
}

void Engine::ensure_progress_thread() {
  if (!progress_.joinable()) {
    progress_ = std::thread([this] { progress_loop(); });
  }
}

void Engine::progress_loop() {
  if (!options_.progress_cpus.empty()) {
    if (Status status = bind_current_thread(options_.progress_cpus); !status.ok()) {
      log_warn("progress thread stays unbound: {}", status.message());
    }
  }
  Lock lock(mutex_);
  while (!stopping_) {
    if (any_background() && !driving_) {
      drive(
          lock, [this] { return !any_background() || stopping_; }, Deadline::max());
    } else {
      changed_.wait(lock);
    }
  }
}

}  // namespace ho
