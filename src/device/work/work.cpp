#include "device/work/work.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <thread>
#include <utility>

#include "base/log.hpp"

namespace ho::device {
namespace {

constexpr std::chrono::microseconds kDrainPoll{50};
constexpr std::chrono::seconds kLastDrain{5};
constexpr size_t kMinMemory = 64U << 10;
constexpr size_t kLargeMemory = 64U << 20;

// Few sizes, so that what grew from call to call leaves little behind: powers of two, and multiples
// of a large one.
size_t rounded(size_t bytes) {
  return bytes <= kLargeMemory ? std::bit_ceil(std::max(bytes, kMinMemory))
                               : (bytes + kLargeMemory - 1) / kLargeMemory * kLargeMemory;
}

size_t size_of(const PinnedMemory& memory) {
  return memory.bytes().size();
}

size_t size_of(const DeviceMemory& memory) {
  return memory.size();
}

void ring(void* argument) {
  static_cast<EventFd*>(argument)->ring();
}

}  // namespace

Result<std::unique_ptr<Work>> Work::create(std::shared_ptr<Device> device) {
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(*device));
  HORING_ASSIGN(std::shared_ptr<const Kernels> kernels, shared_kernels(*device));
  std::vector<Queue> queues;
  for (size_t i = 0; i < kDirections; ++i) {
    HORING_ASSIGN(Stream stream, Stream::create(*device));
    HORING_ASSIGN(Stream waker, Stream::create(*device));
    Queue& queue = queues.emplace_back(Queue{std::move(stream), std::move(waker), {}});
    for (uint64_t n = 0; n < kMaxUnderWay; ++n) {
      HORING_ASSIGN(Event event, Event::create(*device));
      queue.events.push_back(std::move(event));
    }
  }
  HORING_ASSIGN(EventFd wake, EventFd::create());
  return std::unique_ptr<Work>(new Work(
      std::move(device),
      {std::move(queues[0]), std::move(queues[1]), std::move(queues[2]), std::move(queues[3])},
      std::move(kernels),
      std::move(wake)));
}

Work::Work(std::shared_ptr<Device> device,
           std::array<Queue, kDirections> queues,
           std::shared_ptr<const Kernels> kernels,
           EventFd wake)
    : device_(std::move(device)),
      wake_(std::make_unique<EventFd>(std::move(wake))),
      kernels_(std::move(kernels)),
      queues_(std::move(queues)) {}

Work::~Work() {
  forget_unstarted();
  if (Status status = drain(deadline_after(kLastDrain)); !status.ok()) {
    log_warn("{}", status.message());
  }
}

Status Work::look(Queue& queue) {
  if (queue.completed == queue.started) {
    return {};
  }
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(*device_));
  while (queue.completed < queue.started) {
    Event& next = queue.events[(queue.completed + 1) % kMaxUnderWay];
    HORING_ASSIGN(const bool passed, next.passed());
    if (!passed) {
      return {};
    }
    ++queue.completed;
  }
  return {};
}

Result<bool> Work::may_start(Queue& queue) {
  if (queue.started - queue.completed == kMaxUnderWay) {
    HORING_TRY(look(queue));
  }
  return queue.started - queue.completed < kMaxUnderWay && queue.gathered.pieces < kPiecesPerStart;
}

Status Work::record(Queue& queue) {
  const uint64_t number = queue.started + 1;
  HORING_TRY(tracked(queue, queue.events[number % kMaxUnderWay].record(queue.stream.handle())));
  queue.started = number;
  return {};
}

Status Work::tracked(Queue& queue, const Status& status) {
  queue.untracked |= !status.ok();
  return status;
}

Status Work::named(const Status& status) const {
  return status.ok() ? status : status.with_context("device " + std::to_string(device_->ordinal()));
}

Ticket Work::last_ticket(Direction direction) {
  const Queue& used = queue(direction);
  return {direction, used.started + (used.gathered.empty() ? 0 : 1)};
}

Result<std::optional<Ticket>> Work::copy(Direction direction, std::span<const CopyRange> ranges) {
  Queue& used = queue(direction);
  HORING_ASSIGN(const bool free, may_start(used));
  if (!free) {
    return std::optional<Ticket>();
  }
  std::ranges::copy_if(ranges,
                       std::back_inserter(used.gathered.copies),
                       [](const CopyRange& range) { return range.bytes > 0; });
  ++used.gathered.pieces;
  return std::optional(last_ticket(direction));
}

Result<std::optional<Ticket>> Work::sum(Direction direction,
                                        const SumKind& kind,
                                        std::span<const Sum> sums) {
  Queue& used = queue(direction);
  HORING_ASSIGN(const bool free, may_start(used));
  if (!free) {
    return std::optional<Ticket>();
  }
  std::vector<SumsOfKind>& gathered = used.gathered.sums;
  for (const Sum& sum : sums) {
    if (sum.elements > 0) {
      if (gathered.empty() || gathered.back().kind != kind) {
        gathered.push_back({kind, {}});
      }
      gathered.back().sums.push_back(sum);
    }
  }
  ++used.gathered.pieces;
  return std::optional(last_ticket(direction));
}

// What crosses the bus is left to the copy engines, and so is one range alone.
Status Work::put_copies(const Queue& queue) const {
  const std::vector<CopyRange>& copies = queue.gathered.copies;
  if (is_inside(queue) && copies.size() > 1) {
    std::vector<MemoryCopy> by_kernel;
    by_kernel.reserve(copies.size());
    for (const CopyRange& range : copies) {
      by_kernel.push_back({range.to, range.from, range.bytes});
    }
    return named(kernels_->copy(queue.stream.handle(), by_kernel));
  }
  for (const CopyRange& range : copies) {
    HORING_TRY(queue.stream.copy(range.to, range.from, range.bytes));
  }
  return {};
}

Status Work::start(Queue& queue) {
  if (queue.gathered.empty()) {
    queue.gathered.pieces = 0;
    return {};
  }
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(*device_));
  Status put = put_copies(queue);
  for (const SumsOfKind& of_kind : queue.gathered.sums) {
    if (put.ok()) {
      put = named(kernels_->sum(queue.stream.handle(), of_kind.kind, of_kind.sums));
    }
  }
  queue.gathered = {};
  HORING_TRY(tracked(queue, put));
  return record(queue);
}

Status Work::start_all() {
  for (Queue& queue : queues_) {
    HORING_TRY(start(queue));
  }
  return {};
}

void Work::forget_unstarted() {
  for (Queue& queue : queues_) {
    queue.gathered = {};
  }
}

Result<bool> Work::look() {
  bool any = false;
  for (Queue& queue : queues_) {
    const uint64_t before = queue.completed;
    HORING_TRY(look(queue));
    any |= queue.completed != before;
  }
  return any;
}

Status Work::start() {
  for (Queue& queue : queues_) {
    if (!queue.gathered.empty() && queue.started - queue.completed >= kStartsAhead) {
      HORING_TRY(look(queue));
    }
    if (queue.started - queue.completed < kStartsAhead) {
      HORING_TRY(start(queue));
    }
  }
  return {};
}

Result<std::optional<Ticket>> Work::premultiply(
    DType dtype, void* to, const void* from, uint64_t elements, double factor) {
  Queue& used = queue(Direction::kArrivesInside);
  HORING_ASSIGN(const bool free, may_start(used));
  if (!free) {
    return std::optional<Ticket>();
  }
  HORING_TRY(start(used));
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(*device_));
  HORING_TRY(tracked(
      used, named(kernels_->premultiply(used.stream.handle(), dtype, to, from, elements, factor))));
  HORING_TRY(record(used));
  return std::optional(last_ticket(Direction::kArrivesInside));
}

Result<bool> Work::passed(const Event& event) const {
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(*device_));
  return event.passed();
}

bool Work::pending() const {
  return std::ranges::any_of(queues_, [](const Queue& queue) {
    return queue.completed < queue.started || !queue.gathered.empty();
  });
}

Status Work::wake_when_completed() {
  HORING_TRY(start());
  HORING_ASSIGN(const bool completed, look());
  if (completed) {
    wake_->ring();  // nobody knows of it yet
  }
  for (Queue& queue : queues_) {
    const uint64_t oldest = queue.completed + 1;
    if (queue.completed < queue.started && queue.armed < oldest) {
      HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(*device_));
      HORING_TRY(queue.waker.wait(queue.events[oldest % kMaxUnderWay]));
      HORING_TRY(queue.waker.call_on_host(ring, wake_.get()));
      queue.armed = oldest;
    }
  }
  return {};
}

Status Work::make_wait(StreamHandle stream) {
  HORING_TRY(start_all());
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(*device_));
  for (Queue& queue : queues_) {
    HORING_TRY(look(queue));
    if (queue.completed < queue.started) {
      const EventHandle last = queue.events[queue.started % kMaxUnderWay].handle();
      HORING_TRY(device_->check("cuStreamWaitEvent",
                                device_->driver().stream_wait_event(stream, last, 0)));
    }
  }
  return {};
}

Status Work::drain(Deadline deadline) {
  Status started = start_all();
  while (true) {
    for (Queue& queue : queues_) {
      HORING_TRY(look(queue));
    }
    if (!pending()) {
      HORING_TRY(end_untracked());
      return started;
    }
    if (ho::passed(deadline)) {
      return {StatusCode::kTimeout,
              "device " + std::to_string(device_->ordinal()) +
                  ": work that was started has not completed; is a kernel of the program hanging?"};
    }
    std::this_thread::sleep_for(kDrainPoll);
  }
}

Status Work::end_untracked() {
  for (Queue& queue : queues_) {
    if (std::exchange(queue.untracked, false)) {
      HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(*device_));
      HORING_TRY(device_->check("cuStreamSynchronize",
                                device_->driver().stream_synchronize(queue.stream.handle())));
    }
  }
  return {};
}

template <typename Memory>
Result<Memory> Work::take(Kept<Memory>& kept, size_t bytes) {
  const size_t wanted = rounded(bytes);
  const auto fits = std::ranges::find_if(kept.unused, [&](const Memory& memory) {
    return size_of(memory) >= wanted && size_of(memory) <= 2 * wanted;
  });
  if (fits != kept.unused.end()) {
    Memory taken = std::move(*fits);
    kept.unused.erase(fits);
    return taken;
  }
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(*device_));
  Result<Memory> made = Memory::create(*device_, wanted);
  if (!made.ok()) {  // perhaps there was no more
    for (const Memory& memory : kept.unused) {
      kept.bytes -= size_of(memory);
    }
    kept.unused.clear();
    made = Memory::create(*device_, bytes);
  }
  if (made.ok()) {
    kept.bytes += size_of(*made);
  }
  return made;
}

Result<PinnedMemory> Work::take_pinned(size_t bytes) {
  return take(pinned_, bytes);
}

Result<DeviceMemory> Work::take_device(size_t bytes) {
  return take(on_device_, bytes);
}

}  // namespace ho::device
