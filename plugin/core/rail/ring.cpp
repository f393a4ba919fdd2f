// The thread takes turns: all flows move what they can. When a turn moved nothing it sleeps on
// the descriptors of its connections, where the driver has such, and on the one that a new call
// rings. A driver without descriptors is polled, with pauses once nothing has moved for some turns.
#include "core/rail/ring.hpp"

#include <pthread.h>
#include <spdlog/fmt/fmt.h>
#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>

#include "base/log.hpp"
#include "os/clock.hpp"

namespace ho::plugin::rail {
namespace {

constexpr std::chrono::microseconds kPause{50};
constexpr uint32_t kTurnsBeforePause = 200;
// Connections are checked this often even when nothing happens: this finds a dead peer.
constexpr int kLookMs = 1000;
constexpr int64_t kLookNs = int64_t{kLookMs} * 1'000'000;

// comm: what the descriptor belongs to; null for the one that a new call rings.
Status watch(int epoll, int fd, void* comm) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = comm;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0 && errno != EEXIST) {
    return system_error("epoll_ctl of a rail's thread", errno);
  }
  return {};
}

}  // namespace

RailLinks::~RailLinks() {
  for (const FlowLink& flow : flows_) {
    if (flow.to_next != nullptr) {
      (void)driver_->close_send(flow.to_next);
    }
    if (flow.from_previous != nullptr) {
      (void)driver_->close_recv(flow.from_previous);
    }
  }
}

Result<std::unique_ptr<RailRing>> RailRing::start(RailLinks links,
                                                  Shape shape,
                                                  OnFailure on_failure,
                                                  LookAround look_around) {
  HORING_ASSIGN(EventFd wake, EventFd::create());
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) {
    return system_error("epoll_create1 for a rail's thread", errno);
  }
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  std::unique_ptr<RailRing> ring(new RailRing(std::move(links),
                                              shape,
                                              std::move(on_failure),
                                              std::move(look_around),
                                              std::move(wake),
                                              std::move(epoll)));
  HORING_TRY(ring->make_flows());
  HORING_TRY(ring->watch_progress());
  ring->thread_ = std::thread([raw = ring.get()] { raw->run(); });
  return ring;
}

RailRing::RailRing(RailLinks links,
                   Shape shape,
                   OnFailure on_failure,
                   LookAround look_around,
                   EventFd wake,
                   Fd epoll)
    : shape_(shape),
      on_failure_(std::move(on_failure)),
      look_around_(std::move(look_around)),
      links_(std::move(links)),
      wake_(std::move(wake)),
      epoll_(std::move(epoll)) {}

void RailRing::stop() {
  stop_.store(true, std::memory_order_release);
  wake_.ring();
  if (thread_.joinable()) {
    thread_.join();
  }
}

RailRing::~RailRing() {
  stop();
  if (scratch_memory_ != nullptr) {
    deregister(*scratch_memory_);
  }
}

Status RailRing::make_flows() {
  if (links_.flows().empty()) {
    return {};
  }
  const size_t flow_bytes = Flow::kSlots * Flow::most_piece_bytes(shape_.wanted_piece_bytes);
  HORING_ASSIGN(scratch_, PrivateMemory::create(kOwnerFlows * flow_bytes));
  const std::span<std::byte> scratch = scratch_.bytes();
  HORING_ASSIGN(scratch_memory_, register_memory(scratch.data(), scratch.size(), kHostMemory));
  flows_.reserve(kFlowCount);
  for (size_t i = 0; i < kFlowCount; ++i) {
    const bool reduces = flow_at(i).kind == FlowKind::kReduction;
    Flow::Setup setup;
    setup.driver = &links_.driver();
    setup.link = links_.flows()[i];
    setup.flow = flow_at(i);
    setup.number = i;
    setup.self = shape_.self;
    setup.members = shape_.members;
    setup.wanted_piece_bytes = shape_.wanted_piece_bytes;
    setup.scratch = reduces ? scratch.data() + i * flow_bytes : nullptr;
    setup.scratch_memory = scratch_memory_.get();
    // A flow's messages go in one order on all links.
    setup.driver->promise_order(setup.link.to_next);
    setup.driver->promise_order(setup.link.from_previous);
    flows_.emplace_back(setup);
  }
  return {};
}

Status RailRing::watch_progress() {
  HORING_TRY(watch(epoll_.get(), wake_.fd(), nullptr));
  can_sleep_ = true;
  for (const FlowLink& flow : links_.flows()) {
    for (void* const comm : {flow.to_next, flow.from_previous}) {
      const int fd = links_.driver().progress_fd(comm);
      can_sleep_ = can_sleep_ && fd >= 0;
      if (fd >= 0) {
        HORING_TRY(watch(epoll_.get(), fd, comm));
      }
    }
  }
  return {};
}

Result<std::unique_ptr<Registration>> RailRing::register_memory(void* data,
                                                                size_t byte_count,
                                                                int32_t kind) {
  auto memory = std::make_unique<Registration>();
  memory->base = static_cast<std::byte*>(data);
  memory->byte_count = byte_count;
  memory->kind = kind;
  NetDriver& driver = links_.driver();
  for (const FlowLink& flow : links_.flows()) {
    std::array<void*, 2> handles{};
    const Reply sends = driver.register_memory(flow.to_next, data, byte_count, kind, &handles[0]);
    if (sends == Reply::kSuccess) {
      memory->for_sends.push_back(handles[0]);
    }
    const Reply receives =
        sends != Reply::kSuccess
            ? sends
            : driver.register_memory(flow.from_previous, data, byte_count, kind, &handles[1]);
    if (receives != Reply::kSuccess) {
      deregister(*memory);
      return Status(StatusCode::kUnsupported,
                    fmt::format("{} did not register {} bytes (kind {}): it reported {}",
                                driver.name(),
                                byte_count,
                                kind,
                                to_string(receives)));
    }
    memory->for_receives.push_back(handles[1]);
  }
  return memory;
}

void RailRing::deregister(const Registration& memory) {
  NetDriver& driver = links_.driver();
  for (size_t i = 0; i < memory.for_sends.size(); ++i) {
    (void)driver.deregister(links_.flows()[i].to_next, memory.for_sends[i]);
  }
  for (size_t i = 0; i < memory.for_receives.size(); ++i) {
    (void)driver.deregister(links_.flows()[i].from_previous, memory.for_receives[i]);
  }
}

Status RailRing::failure() {
  const std::lock_guard lock(mutex_);
  return why_;
}

void RailRing::fail(const Status& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!why_.ok()) {
      return;
    }
    why_ = why;
  }
  failed_.store(true, std::memory_order_release);
  log_error("rail member {} of {}: {}", shape_.self, shape_.members, why.message());
  wake_.ring();
}

Result<std::optional<uint64_t>> RailRing::enter(const RailCall& call) {
  const bool failed = failed_.load(std::memory_order_acquire);
  if (failed && ended_.load(std::memory_order_acquire)) {
    return failure();
  }
  RailCall* const free = failed ? nullptr : calls_.free_call();
  if (free == nullptr) {
    return std::optional<uint64_t>();
  }
  *free = call;
  // One more than cross the links: the thread's own work on the call, do_local_work().
  const uint64_t number =
      calls_.publish(message_count(call.window, shape_.self, shape_.wanted_piece_bytes) + 1);
  // Pairs with sleep(): it declares itself asleep, then checks for new calls.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (asleep_.load(std::memory_order_relaxed)) {
    wake_.ring();
  }
  return std::optional<uint64_t>(number);
}

Result<bool> RailRing::test(uint64_t number) {
  if (calls_.complete(number)) {
    calls_.release(number);
    return true;
  }
  if (failed_.load(std::memory_order_acquire) && ended_.load(std::memory_order_acquire)) {
    return failure();
  }
  return false;
}

// What of a call is this member's alone.
bool RailRing::do_local_work() {
  const uint64_t end = calls_.end();
  const bool any = local_work_done_ < end;
  for (; local_work_done_ < end; ++local_work_done_) {
    const RailCall& call = calls_.at(local_work_done_);
    const Segment own = call.window.segment(shape_.self);
    std::byte* const to =
        call.window.kind == WindowKind::kReduceScatter ? call.result : call.result + own.offset;
    if (copies_own_segment(call.window) && own.byte_count > 0 && to != call.mine) {
      std::memmove(to, call.mine, own.byte_count);
    }
    calls_.message_done(local_work_done_);
  }
  return any;
}

// See Flow::progress().
const Flow* RailRing::other_flow(size_t number) const {
  if (number >= kOwnerFlows) {
    return &flows_[number - kOwnerFlows];
  }
  return shape_.members == 2 && number < 2 ? &flows_[1 - number] : nullptr;
}

Result<bool> RailRing::turn() {
  bool moved = do_local_work();
  for (size_t i = 0; i < flows_.size(); ++i) {
    HORING_ASSIGN(const bool flow_moved, flows_[i].progress(calls_, other_flow(i)));
    moved = moved || flow_moved;
  }
  calls_.pass_complete();
  return look() || moved;
}

void RailRing::rest() {
  if (!can_sleep_ && calls_.first() < calls_.end()) {
    if (++idle_turns_ > kTurnsBeforePause) {
      std::this_thread::sleep_for(kPause);
    }
  } else {
    sleep();
  }
}

// What the flows have begun is moved here, several messages of a connection at once. true:
// something may get further.
bool RailRing::look() {
  bool any = false;
  for (const FlowLink& flow : links_.flows()) {
    for (void* const comm : {flow.to_next, flow.from_previous}) {
      if (links_.driver().has_pending(comm)) {
        links_.driver().look(comm);
        any = true;
      }
    }
  }
  return any;
}

void RailRing::sleep() {
  asleep_.store(true, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  std::array<epoll_event, 2 * kFlowCount + 1> events{};
  int count = 0;
  if (local_work_done_ == calls_.end() && !stop_.load(std::memory_order_acquire)) {
    count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), kLookMs);
  }
  asleep_.store(false, std::memory_order_relaxed);
  for (int i = 0; i < count; ++i) {
    if (void* const comm = events.at(static_cast<size_t>(i)).data.ptr; comm != nullptr) {
      links_.driver().look(comm);
    } else {
      (void)wake_.drain();
    }
  }
}

// A peer's notice that it closes may at this moment be read by another thread: hence the second
// check.
Status RailRing::look_around() {
  const int64_t now = look_around_ ? now_ns() : 0;
  if (now < next_look_ns_ || !look_around_) {
    return {};
  }
  next_look_ns_ = now + kLookNs;
  Status found = look_around_();
  const bool certain = suspects_ && !found.ok();
  suspects_ = !found.ok();
  return certain ? found : Status();
}

void RailRing::run() {
  ::pthread_setname_np(::pthread_self(), "horing rail");
  while (!stop_.load(std::memory_order_acquire)) {
    if (failed_.load(std::memory_order_acquire)) {
      break;
    }
    Result<bool> moved = turn();
    if (moved.ok() && !*moved) {
      if (Status around = look_around(); !around.ok()) {
        moved = std::move(around);
      }
    }
    if (!moved.ok()) {
      fail(moved.status());
      on_failure_(moved.status());
    } else if (*moved) {
      idle_turns_ = 0;
    } else {
      rest();
    }
    turns_.fetch_add(1, std::memory_order_relaxed);
  }
  ended_.store(true, std::memory_order_release);
}

}  // namespace ho::plugin::rail
