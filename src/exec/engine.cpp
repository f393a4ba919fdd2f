#include "exec/engine.hpp"

#include <spdlog/fmt/fmt.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/log.hpp"
#include "os/affinity.hpp"

namespace ho {
namespace {

// An upper bound for one sleep. Wake-ups do not depend on it; it bounds what a lost one would cost.
constexpr std::chrono::milliseconds kLongestSleep{500};
constexpr uint8_t kPointToPointChannel = 3;
// How long the end of an engine waits for its last bytes to reach the peers' hosts.
constexpr std::chrono::milliseconds kLinger{1000};
constexpr int kYieldsForLatency = 16;
constexpr int kYieldsForThroughput = 4;
constexpr uint64_t kLatencyBoundBytes = 512U << 10;

OperationPlace place_of(const Call& call, const Schedule& schedule) {
  OperationPlace place;
  place.channel = call.channel;
  place.point_to_point = call.point_to_point;
  if (call.point_to_point) {
    place.sends = schedule.op(0).kind == OpKind::kSend;
    place.peer = schedule.op(0).peer;
  }
  return place;
}

uint32_t lane_key(const OperationPlace& place) {
  return place.channel | (place.sends ? 0x100U : 0U) |
         (place.point_to_point ? place.peer.value() << 16 : 0U);
}

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
               FailureHandler on_failure)
    : options_(options),
      shm_(std::move(shm)),
      network_(std::move(network)),
      on_failure_(std::move(on_failure)) {}

Result<std::unique_ptr<Engine>> Engine::create(const EngineOptions& options,
                                               std::unique_ptr<ShmTransport> shm,
                                               std::unique_ptr<Transport> network,
                                               FailureHandler on_failure) {
  std::unique_ptr<Engine> engine(
      new Engine(options, std::move(shm), std::move(network), std::move(on_failure)));
  engine->epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!engine->epoll_.valid()) {
    return system_error("epoll_create1", errno);
  }
  HORING_TRY(watch(engine->epoll_.get(), engine->shm_->wait_fd()));
  if (engine->network_ != nullptr) {
    HORING_TRY(watch(engine->epoll_.get(), engine->network_->wait_fd()));
  }
  return engine;
}

void Engine::drain() {
  Lock lock(mutex_);
  drive(
      lock, [this] { return !any_active(); }, Deadline::max());
}

Engine::~Engine() {
  drain();
  {
    const Lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (progress_.joinable()) {
    progress_.join();
  }
  if (network_ != nullptr && !broken_) {
    network_->linger(deadline_after(kLinger));
  }
}

Result<std::shared_ptr<Operation>> Engine::submit(Call call,
                                                  std::shared_ptr<const Schedule> schedule,
                                                  bool background) {
  Lock lock(mutex_);
  auto operation = std::make_shared<Operation>();
  OperationPlace& place = operation->place_;
  place = place_of(call, *schedule);
  operation->lane_key_ = lane_key(place);
  Counters& counters = counters_.at(call.channel);
  Counters& lane = place.point_to_point ? pairs_[operation->lane_key_] : counters;
  call.sequence = counters.entered + 1;
  place.number = lane.entered + 1;
  if (broken_) {
    return broken_->with_context(call.name());
  }
  if (const auto departed = leave_notices_.against(place)) {
    return departed->with_context(call.name());
  }
  counters.entered = call.sequence;
  lane.entered = place.number;
  if (!place.point_to_point) {
    counters.last = call.collective;
  }
  operation->run_ = std::make_unique<Run>(
      std::move(call), std::move(schedule), options_.limits, options_.trace ? &trace_ : nullptr);
  lanes_[operation->lane_key_].push_back(operation);
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

std::optional<Status> Engine::wait(Operation& operation, Deadline deadline) {
  Lock lock(mutex_);
  drive(
      lock, [&operation] { return operation.ended_; }, deadline);
  if (!operation.ended_) {
    return std::nullopt;
  }
  return operation.status_;
}

bool Engine::test(Operation& operation) {
  Lock lock(mutex_);
  if (!operation.ended_ && !driving_) {
    (void)turn(lock);
  }
  return operation.ended_;
}

bool Engine::any_active() const {
  return std::any_of(
      lanes_.begin(), lanes_.end(), [](const auto& lane) { return !lane.second.empty(); });
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
      // Somebody else drives; it tells when an operation ends and when it leaves.
      if (deadline == Deadline::max()) {
        changed_.wait(lock);
      } else if (changed_.wait_until(lock, deadline) == std::cv_status::timeout) {
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
    if (progress_.joinable()) {
      changed_.notify_all();
    }
    if (!enough() && passed(deadline)) {
      return;
    }
  }
}

// Where ranks outnumber cores, what this rank waits for is often about to be done by a rank that
// waits for this core: offering it is cheaper than going to sleep and being woken. It costs next to
// nothing when nobody else wants to run, but adds up over a long transfer, which gains nothing by
// it.
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
  return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) {
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
  for (auto lane = lanes_.begin(); lane != lanes_.end() && !error;) {
    moved |= step_front(lane->second, error);
    lane = lane->second.empty() ? lanes_.erase(lane) : std::next(lane);
  }
  if (error) {
    fail_locally(lock, *error);
    return true;
  }
  return moved;
}

bool Engine::step_front(Queue& queue, std::optional<RunError>& error) {
  Operation& operation = *queue.front();
  Run& run = *operation.run_;
  if (!operation.started_) {
    operation.scratch_ =
        std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[run.scratch_bytes() + 64]);
    if (operation.scratch_ == nullptr) {
      error = RunError{
          {StatusCode::kOutOfMemory,
           fmt::format("{}: {} bytes for partial sums", run.call().name(), run.scratch_bytes())},
          std::nullopt};
      return false;
    }
    operation.started_ = true;
    run.start(operation.scratch_.get());
  }
  bool moved = false;
  error = run.step(&moved);
  if (error) {
    return false;
  }
  if (run.finished()) {
    const std::shared_ptr<Operation> ended = queue.front();
    queue.pop_front();
    count_completed(*ended);
    end(*ended, Status());
    return true;
  }
  return moved;
}

void Engine::count_completed(const Operation& operation) {
  const Call& call = operation.run_->call();
  Counters& counters = counters_.at(call.channel);
  ++counters.completed;
  if (call.point_to_point) {
    ++pairs_[operation.lane_key_].completed;
  }
}

void Engine::end(Operation& operation, const Status& status) {
  operation.report_ = operation.run_->report();
  operation.status_ = status;
  operation.ended_ = true;
  operation.scratch_.reset();
  if (progress_.joinable()) {
    changed_.notify_all();
  }
}

RunWait Engine::merged_wait(Deadline* earliest) const {
  RunWait merged;
  for (const auto& [key, queue] : lanes_) {
    const Run& run = *queue.front()->run_;
    const RunWait wait = run.wait_state();
    merged.network |= wait.network;
    merged.intra_releases |= wait.intra_releases;
    if (wait.intra_arrivals > 0) {
      merged.intra_arrivals = merged.intra_arrivals == 0
                                  ? wait.intra_arrivals
                                  : std::min(merged.intra_arrivals, wait.intra_arrivals);
    }
    for (const auto& operation : queue) {
      *earliest = std::min(*earliest, operation->run_->call().deadline);
    }
  }
  return merged;
}

void Engine::sleep(Lock& lock, Deadline deadline) {
  Deadline until = deadline_after(kLongestSleep);
  Deadline earliest = Deadline::max();
  const RunWait wait = merged_wait(&earliest);
  if (passed(earliest)) {
    fail_locally(lock, late_operation());
    return;
  }
  until = std::min({until, deadline, earliest});
  const WaitHint hint{wait.intra_arrivals, wait.intra_releases};
  const int64_t began = now_ns();
  if (wait.network && network_ != nullptr) {
    if (shm_->prepare_wait(hint) && network_->prepare_wait(hint)) {
      const auto ns = left(until);
      std::array<epoll_event, 2> events{};
      lock.unlock();
      const auto ms = std::chrono::ceil<std::chrono::milliseconds>(ns).count();
      (void)::epoll_wait(epoll_.get(), events.data(), 2, static_cast<int>(ms));
      lock.lock();
    }
    network_->finish_wait();
    shm_->finish_wait();
  } else if (shm_->prepare_sleep(hint)) {
    lock.unlock();
    shm_->sleep(until);
    lock.lock();
    shm_->finish_sleep();
  }
  const int64_t slept = now_ns() - began;
  for (const auto& [key, queue] : lanes_) {
    queue.front()->run_->add_wait_ns(slept);
  }
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
        state.operation =
            run.call().point_to_point ? "send/recv" : std::string(to_string(run.call().collective));
        state.waiting = run.waiting_text();
      }
    }
    // Collective channels are listed when idle too, so that a rank that has not come yet is named.
    if (state.entered > 0 || channel != kPointToPointChannel) {
      states.push_back(std::move(state));
    }
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
  std::map<GlobalRank, PairProgress> by_peer;
  for (const auto& [key, counters] : pairs_) {
    PairProgress& pair = by_peer[GlobalRank(key >> 16)];
    ((key & 0x100U) != 0 ? pair.sent : pair.received) = counters.entered;
  }
  for (auto& [peer, pair] : by_peer) {
    pair.peer = peer;
    progress.pairs.push_back(pair);
  }
  return progress;
}

uint64_t Engine::memory_bytes() {
  const Lock lock(mutex_);
  uint64_t bytes = shm_->memory_bytes() + (network_ != nullptr ? network_->memory_bytes() : 0);
  for (const auto& [key, queue] : lanes_) {
    for (const auto& operation : queue) {
      bytes += operation->started_ ? operation->run_->scratch_bytes() : 0;
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
    if (any_active() && !driving_) {
      drive(
          lock, [this] { return !any_active() || stopping_; }, Deadline::max());
    } else {
      changed_.wait(lock);
    }
  }
}

}  // namespace ho
