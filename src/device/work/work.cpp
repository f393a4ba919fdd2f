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
  std::vector<Lane> lanes;
  for (size_t i = 0; i < kDirections; ++i) {
    HORING_ASSIGN(Stream stream, Stream::create(*device));
    HORING_ASSIGN(Stream waker, Stream::create(*device));
    Lane& lane = lanes.emplace_back(Lane{std::move(stream), std::move(waker), {}});
    for (uint64_t n = 0; n < kMaxUnderWay; ++n) {
      HORING_ASSIGN(Event event, Event::create(*device));
      lane.events.push_back(std::move(event));
    }
  }
  HORING_ASSIGN(EventFd wake, EventFd::create());
  return std::unique_ptr<Work>(
      new Work(std::move(device),
               {std::move(lanes[0]), std::move(lanes[1]), std::move(lanes[2]), std::move(lanes[3])},
               std::move(kernels),
               std::move(wake)));
}

Work::Work(std::shared_ptr<Device> device,
           std::array<Lane, kDirections> lanes,
           std::shared_ptr<const Kernels> kernels,
           EventFd wake)
    : device_(std::move(device)),
      wake_(std::make_unique<EventFd>(std::move(wake))),
      kernels_(std::move(kernels)),
      lanes_(std::move(lanes)) {}

Work::~Work() {
  forget_given();
  if (Status status = drain(deadline_after(kLastDrain)); !status.ok()) {
    log_warn("{}", status.message());
  }
}

Status Work::look(Lane& lane) {
  if (lane.completed == lane.started) {
    return {};
  }
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(*device_));
  while (lane.completed < lane.started) {
    Event& next = lane.events[(lane.completed + 1) % kMaxUnderWay];
    HORING_ASSIGN(const bool passed, next.passed());
    if (!passed) {
      return {};
    }
    ++lane.completed;
  }
  return {};
}

Result<bool> Work::room(Lane& lane) {
  if (lane.started - lane.completed == kMaxUnderWay) {
    HORING_TRY(look(lane));
  }
  return lane.started - lane.completed < kMaxUnderWay && lane.gathered.pieces < kPiecesPerStart;
}

Status Work::record(Lane& lane) {
  const uint64_t number = lane.started + 1;
  HORING_TRY(tracked(lane, lane.events[number % kMaxUnderWay].record(lane.stream.handle())));
  lane.started = number;
  return {};
}

Status Work::tracked(Lane& lane, const Status& status) {
  lane.untracked |= !status.ok();
  return status;
}

Status Work::named(const Status& status) const {
  return status.ok() ? status : status.with_context("device " + std::to_string(device_->ordinal()));
}

Ticket Work::last_given(Direction direction) {
  const Lane& used = lane(direction);
  return {direction, used.started + (used.gathered.empty() ? 0 : 1)};
}

Result<std::optional<Ticket>> Work::copy(Direction direction, std::span<const CopyRange> ranges) {
  Lane& used = lane(direction);
  HORING_ASSIGN(const bool free, room(used));
  if (!free) {
    return std::optional<Ticket>();
  }
  std::copy_if(ranges.begin(),
               ranges.end(),
               std::back_inserter(used.gathered.copies),
               [](const CopyRange& range) { return range.bytes > 0; });
  ++used.gathered.pieces;
  return std::optional(last_given(direction));
}

Result<std::optional<Ticket>> Work::sum(Direction direction,
                                        const SumKind& kind,
                                        std::span<const Sum> sums) {
  Lane& used = lane(direction);
  HORING_ASSIGN(const bool free, room(used));
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
  return std::optional(last_given(direction));
}

// What crosses the bus is left to the copy engines, and so is one range alone.
Status Work::put_copies(const Lane& lane) const {
  const std::vector<CopyRange>& copies = lane.gathered.copies;
  if (is_inside(lane) && copies.size() > 1) {
    std::vector<MemoryCopy> by_kernel;
    for (const CopyRange& range : copies) {
      by_kernel.push_back({range.to, range.from, range.bytes});
    }
    return named(kernels_->copy(lane.stream.handle(), by_kernel));
  }
  for (const CopyRange& range : copies) {
    HORING_TRY(lane.stream.copy(range.to, range.from, range.bytes));
  }
  return {};
}

Status Work::start(Lane& lane) {
  if (lane.gathered.empty()) {
    lane.gathered.pieces = 0;
    return {};
  }
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(*device_));
  Status put = put_copies(lane);
  for (const SumsOfKind& of_kind : lane.gathered.sums) {
    if (put.ok()) {
      put = named(kernels_->sum(lane.stream.handle(), of_kind.kind, of_kind.sums));
    }
  }
  lane.gathered = {};
  HORING_TRY(tracked(lane, put));
  return record(lane);
}

Status Work::start_all() {
  for (Lane& lane : lanes_) {
    HORING_TRY(start(lane));
  }
  return {};
}

void Work::forget_given() {
  for (Lane& lane : lanes_) {
    lane.gathered = {};
  }
}

Result<bool> Work::look() {
  bool any = false;
  for (Lane& lane : lanes_) {
    const uint64_t before = lane.completed;
    HORING_TRY(look(lane));
    any |= lane.completed != before;
  }
  return any;
}

Status Work::start() {
  for (Lane& lane : lanes_) {
    if (!lane.gathered.empty() && lane.started - lane.completed >= kStartsAhead) {
      HORING_TRY(look(lane));
    }
    if (lane.started - lane.completed < kStartsAhead) {
      HORING_TRY(start(lane));
    }
  }
  return {};
}

Result<std::optional<Ticket>> Work::premultiply(
    DType dtype, void* to, const void* from, uint64_t elements, double factor) {
  Lane& used = lane(Direction::kArrivesInside);
  HORING_ASSIGN(const bool free, room(used));
  if (!free) {
    return std::optional<Ticket>();
  }
  HORING_TRY(start(used));
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(*device_));
  HORING_TRY(tracked(
      used, named(kernels_->premultiply(used.stream.handle(), dtype, to, from, elements, factor))));
  HORING_TRY(record(used));
  return std::optional(last_given(Direction::kArrivesInside));
}

Result<bool> Work::passed(const Event& event) const {
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(*device_));
  return event.passed();
}

bool Work::pending() const {
  return std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) {
    return lane.completed < lane.started || !lane.gathered.empty();
  });
}

Status Work::wake_when_completed() {
  HORING_TRY(start());
  HORING_ASSIGN(const bool completed, look());
  if (completed) {
    wake_->ring();  // nobody knows of it yet
  }
  for (Lane& lane : lanes_) {
    const uint64_t oldest = lane.completed + 1;
    if (lane.completed < lane.started && lane.armed < oldest) {
      HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(*device_));
      HORING_TRY(lane.waker.wait(lane.events[oldest % kMaxUnderWay]));
      HORING_TRY(lane.waker.call_on_host(ring, wake_.get()));
      lane.armed = oldest;
    }
  }
  return {};
}

Status Work::make_wait(StreamHandle stream) {
  HORING_TRY(start_all());
  HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(*device_));
  for (Lane& lane : lanes_) {
    HORING_TRY(look(lane));
    if (lane.completed < lane.started) {
      const EventHandle last = lane.events[lane.started % kMaxUnderWay].handle();
      HORING_TRY(device_->check("cuStreamWaitEvent",
                                device_->driver().stream_wait_event(stream, last, 0)));
    }
  }
  return {};
}

Status Work::drain(Deadline deadline) {
  const Status started = start_all();
  while (true) {
    for (Lane& lane : lanes_) {
      HORING_TRY(look(lane));
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
  for (Lane& lane : lanes_) {
    if (std::exchange(lane.untracked, false)) {
      HORING_ASSIGN(const CurrentContext current, CurrentContext::enter(*device_));
      HORING_TRY(device_->check("cuStreamSynchronize",
                                device_->driver().stream_synchronize(lane.stream.handle())));
    }
  }
  return {};
}

template <typename Memory>
Result<Memory> Work::take(Kept<Memory>& kept, size_t bytes) {
  const size_t wanted = rounded(bytes);
  const auto fits = std::find_if(kept.unused.begin(), kept.unused.end(), [&](const Memory& memory) {
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
