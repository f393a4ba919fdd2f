#include "assumptions.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "device/address.hpp"
#include "probe_parts.hpp"

namespace ho::device_suite {
namespace {

using device::CurrentContext;
using device::Driver;
using device::DriverResult;

// --- Contexts and addresses ------------------------------------------------------------------

Status primary_context_is_shared(const Bench& bench) {
  HORING_ASSIGN(const auto again, Device::open(bench.device->driver(), bench.device->ordinal()));
  return expect(again->context() == bench.device->context(),
                "two retained primary contexts differ");
}

Status threads_begin_without_context(const Bench& bench) {
  DriverResult result = device::kSuccess;
  std::thread([&] {
    device::EventHandle event = nullptr;
    result = bench.device->driver().event_create(&event, device::kEventDisableTiming);
  }).join();
  return expect(result == device::kInvalidContext,
                "cuEventCreate without a context returns " + std::to_string(result));
}

class Store {
 public:
  static Result<Store> load(const Bench& bench) {
    const Driver& driver = bench.device->driver();
    Store store(bench.device);
    HORING_TRY(
        bench.device->check("cuModuleLoadData", driver.module_load(&store.module_, bench.image)));
    HORING_TRY(bench.device->check(
        "cuModuleGetFunction",
        driver.module_function(&store.function_, store.module_, "probe_store")));
    return store;
  }
  Store(Store&& other) noexcept
      : device_(std::move(other.device_)),
        module_(std::exchange(other.module_, nullptr)),
        function_(other.function_) {}
  Store& operator=(Store&&) = delete;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  ~Store() {
    if (module_ != nullptr) {
      static_cast<void>(device_->driver().module_unload(module_));
    }
  }
  // Overwrites its arguments after the launch.
  [[nodiscard]] Status run(StreamHandle stream, void* address, uint32_t value) const {
    void* arguments[] = {&address, &value};
    const DriverResult result =
        device_->driver().launch(function_, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
    address = nullptr;
    value = 0;
    return device_->check("cuLaunchKernel", result);
  }

 private:
  explicit Store(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  std::shared_ptr<Device> device_;
  device::ModuleHandle module_ = nullptr;
  device::FunctionHandle function_ = nullptr;
};

Status pinned_memory_has_one_address(const Bench& bench) {
  HORING_ASSIGN(const Store store, Store::load(bench));
  HORING_ASSIGN(const Things things, Things::make(bench));
  HORING_TRY(store.run(things.first.handle(), things.to.bytes().data() + 8, 0x01020304U));
  HORING_TRY(finish(bench, things.first.handle()));
  uint32_t seen = 0;
  std::memcpy(&seen, things.to.bytes().data() + 8, sizeof seen);
  return expect(seen == 0x01020304U, "a kernel's store does not come to pinned memory");
}

Status launches_copy_their_arguments(const Bench& bench) {
  HORING_ASSIGN(const Store store, Store::load(bench));
  HORING_ASSIGN(const Things things, Things::make(bench));
  Held held;
  HORING_TRY(held.hold(*bench.device, things.first.handle()));
  HORING_TRY(store.run(things.first.handle(), things.to.bytes().data(), 7));
  held.release();
  HORING_TRY(finish(bench, things.first.handle()));
  uint32_t seen = 0;
  std::memcpy(&seen, things.to.bytes().data(), sizeof seen);
  return expect(seen == 7, "a kernel saw arguments that were changed after its launch");
}

Status memory_kinds_are_distinguished(const Bench& bench) {
  using Kind = device::PointerFacts::Kind;
  HORING_ASSIGN(const Things things, Things::make(bench));
  int ordinary = 0;
  HORING_ASSIGN(const auto pageable, device::facts_of(*bench.device, &ordinary));
  HORING_TRY(expect(pageable.kind == Kind::kPageable, "ordinary memory is known to the driver"));
  HORING_ASSIGN(const auto pinned, device::facts_of(*bench.device, things.to.bytes().data() + 100));
  HORING_TRY(expect(pinned.kind == Kind::kPinned, "pinned memory is not known as host memory"));
  HORING_ASSIGN(const auto facts,
                device::facts_of(*bench.device, device::pointer_to(things.memory.address() + 100)));
  HORING_TRY(expect(facts.kind == Kind::kDevice, "device memory is not known as such"));
  HORING_TRY(expect(facts.ordinal == bench.device->ordinal(),
                    "device memory is known as another device's"));
  return expect(
      facts.base == things.memory.address() && facts.bytes == bench.bytes && !facts.mapped,
      "the range of an allocation is not what was allocated");
}

Status mapped_memory_is_known_by_segments(const Bench& bench) {
  constexpr size_t kSegments = 3;
  HORING_ASSIGN(const Segments mapped, bench.map_segments(kSegments));
  auto* const first = static_cast<std::byte*>(mapped.first.get());
  const std::byte* const inside = first + mapped.bytes + 4;
  HORING_ASSIGN(const auto facts, device::facts_of(*bench.device, inside));
  HORING_TRY(expect(facts.kind == device::PointerFacts::Kind::kDevice && facts.mapped,
                    "mapped memory is not told from an allocation"));
  HORING_TRY(
      expect(facts.base == device::address_of(first + mapped.bytes) && facts.bytes == mapped.bytes,
             "another range than one segment is told"));
  HORING_ASSIGN(const size_t bytes,
                device::bytes_from(*bench.device, inside, facts, kSegments * mapped.bytes));
  HORING_TRY(expect(bytes == (kSegments - 1) * mapped.bytes - 4,
                    "of segments that follow each other not all are found"));
  // A copy goes across their boundary.
  HORING_ASSIGN(const Things things, Things::make(bench));
  const size_t copied = std::min(bench.bytes, mapped.bytes);
  std::byte* const across = first + mapped.bytes - copied / 2;
  HORING_TRY(things.first.copy(across, things.from.bytes().data(), copied));
  HORING_TRY(things.first.copy(things.to.bytes().data(), across, copied));
  HORING_TRY(finish(bench, things.first.handle()));
  return expect(
      std::ranges::equal(things.from.bytes().first(copied), things.to.bytes().first(copied)),
      "a copy across two segments has other bytes");
}

Status freed_memory_is_unknown(const Bench& bench) {
  void* freed = nullptr;
  {
    HORING_ASSIGN(const auto memory, DeviceMemory::create(*bench.device, bench.bytes * 64));
    freed = memory.pointer();
  }
  HORING_ASSIGN(const auto facts, device::facts_of(*bench.device, freed));
  return expect(facts.kind == device::PointerFacts::Kind::kPageable,
                "the driver still knows memory that was freed");
}

Status streams_know_their_context(const Bench& bench) {
  HORING_ASSIGN(const auto stream, Stream::create(*bench.device));
  device::ContextHandle context = nullptr;
  HORING_TRY(bench.device->check("cuStreamGetCtx",
                                 bench.device->driver().stream_context(stream.handle(), &context)));
  return expect(context == bench.device->context(),
                "a stream has another context than it was made in");
}

// --- Order -----------------------------------------------------------------------------------

Status copies_return_before_they_run(const Bench& bench) {
  HORING_ASSIGN(const Things things, Things::make(bench));
  Held held;
  HORING_TRY(held.hold(*bench.device, things.first.handle()));
  HORING_TRY(things.down(things.first));
  HORING_TRY(things.up(things.first));
  HORING_TRY(things.event.record(things.first.handle()));
  HORING_TRY(expect_pending(things.event, "an event passed before the work that it stands for"));
  held.release();
  return wait_for(things.event);
}

Status streams_keep_their_order(const Bench& bench) {
  HORING_ASSIGN(const Things things, Things::make(bench));
  HORING_ASSIGN(const auto older, PinnedMemory::create(*bench.device, bench.bytes));
  HORING_TRY(things.first.copy(things.memory.pointer(), older.bytes().data(), bench.bytes));
  HORING_TRY(things.down(things.first));
  HORING_TRY(things.up(things.first));
  HORING_TRY(finish(bench, things.first.handle()));
  return expect(things.same(), "copies on one stream ran in another order");
}

Status passed_events_show_bytes(const Bench& bench) {
  HORING_ASSIGN(const Things things, Things::make(bench));
  for (unsigned round = 0; round < 20; ++round) {
    fill(things.from, round);
    HORING_TRY(things.down(things.first));
    HORING_TRY(things.up(things.first));
    HORING_TRY(finish(bench, things.first.handle()));
    HORING_TRY(expect(things.same(), "an event had passed, but not all bytes were there"));
  }
  return {};
}

Status events_order_streams(const Bench& bench) {
  HORING_ASSIGN(const Things things, Things::make(bench));
  Held held;
  HORING_TRY(held.hold(*bench.device, things.first.handle()));
  HORING_TRY(things.down(things.first));
  HORING_TRY(things.event.record(things.first.handle()));
  HORING_TRY(things.second.wait(things.event));
  HORING_TRY(things.up(things.second));
  held.release();
  HORING_TRY(finish(bench, things.second.handle()));
  return expect(things.same(), "a stream did not wait for another one's event");
}

Status waits_keep_the_record_they_saw(const Bench& bench) {
  HORING_ASSIGN(const Things things, Things::make(bench));
  HORING_ASSIGN(const auto third, Stream::create(*bench.device));
  HORING_ASSIGN(const auto after, Event::create(*bench.device));
  Held held;
  HORING_TRY(held.hold(*bench.device, things.first.handle()));
  HORING_TRY(things.event.record(things.first.handle()));
  HORING_TRY(things.second.wait(things.event));
  HORING_TRY(things.event.record(third.handle()));
  HORING_TRY(after.record(things.second.handle()));
  HORING_TRY(wait_for(things.event));
  HORING_TRY(expect_pending(after, "a later record replaced what a wait stands for"));
  held.release();
  return wait_for(after);
}

Status events_begin_as_passed(const Bench& bench) {
  HORING_ASSIGN(const Things things, Things::make(bench));
  HORING_ASSIGN(const bool passed, things.event.passed());
  HORING_TRY(expect(passed, "an event that was never recorded has not passed"));
  HORING_TRY(things.first.wait(things.event));
  return finish(bench, things.first.handle());
}

Status held_streams_hold_no_other(const Bench& bench) {
  HORING_ASSIGN(const Things things, Things::make(bench));
  Held held;
  HORING_TRY(held.hold(*bench.device, things.first.handle()));
  held.wait_until_held();
  HORING_TRY(things.down(things.second));
  Status status = finish(bench, things.second.handle());
  held.release();
  HORING_TRY(finish(bench, things.first.handle()));
  return status;
}

Status host_functions_run_in_order_elsewhere(const Bench& bench) {
  HORING_ASSIGN(const Things things, Things::make(bench));
  struct Seen {
    const Things* things;
    bool same;
    std::thread::id thread;
  } seen{&things, false, std::this_thread::get_id()};
  HORING_TRY(things.down(things.first));
  HORING_TRY(things.up(things.first));
  HORING_TRY(things.first.call_on_host(
      [](void* argument) {
        auto* const all = static_cast<Seen*>(argument);
        all->same = all->things->same();
        all->thread = std::this_thread::get_id();
      },
      &seen));
  HORING_TRY(finish(bench, things.first.handle()));
  HORING_TRY(expect(seen.same, "a host function ran before what its stream had"));
  return expect(seen.thread != std::this_thread::get_id(),
                "a host function ran on the caller's thread");
}

Status default_stream_waits_for_blocking_ones(const Bench& bench) {
  const Driver& driver = bench.device->driver();
  HORING_ASSIGN(const Things things, Things::make(bench));
  Held apart;
  HORING_TRY(apart.hold(*bench.device, things.first.handle()));
  HORING_TRY(
      finish(bench, nullptr).with_context("the default stream waits for a non-blocking one"));
  apart.release();
  StreamHandle blocking = nullptr;
  HORING_TRY(
      bench.device->check("cuStreamCreateWithPriority", driver.stream_create(&blocking, 0, 0)));
  Held held;
  HORING_TRY(held.hold(*bench.device, blocking));
  HORING_TRY(things.event.record(nullptr));
  Status pending =
      expect_pending(things.event, "the default stream does not wait for a blocking stream");
  held.release();
  HORING_TRY(wait_for(things.event));
  HORING_TRY(bench.device->check("cuStreamDestroy", driver.stream_destroy(blocking)));
  HORING_TRY(finish(bench, things.first.handle()));
  return pending;
}

Status destroyed_streams_finish(const Bench& bench) {
  const Driver& driver = bench.device->driver();
  HORING_ASSIGN(const Things things, Things::make(bench));
  StreamHandle stream = nullptr;
  HORING_TRY(bench.device->check("cuStreamCreateWithPriority",
                                 driver.stream_create(&stream, device::kStreamNonBlocking, 0)));
  const auto copy = [&](const void* to, const void* from) {
    return bench.device->check(
        "cuMemcpyAsync",
        driver.copy_async(device::address_of(to), device::address_of(from), bench.bytes, stream));
  };
  Held held;
  HORING_TRY(held.hold(*bench.device, stream));
  HORING_TRY(copy(things.memory.pointer(), things.from.bytes().data()));
  HORING_TRY(copy(things.to.bytes().data(), things.memory.pointer()));
  HORING_TRY(things.event.record(stream));
  HORING_TRY(bench.device->check("cuStreamDestroy", driver.stream_destroy(stream)));
  held.release();
  HORING_TRY(wait_for(things.event));
  return expect(things.same(), "a stream that was destroyed did not finish");
}

// Never enqueued by the library.
Status copies_between_host_memory_wait(const Bench& bench) {
  HORING_ASSIGN(const Things things, Things::make(bench));
  Held held;
  std::atomic<bool> released = false;
  HORING_TRY(held.hold(*bench.device, things.first.handle()));
  held.wait_until_held();
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    released = true;
    held.release();
  });
  const Status copied =
      things.first.copy(things.to.bytes().data(), things.from.bytes().data(), bench.bytes);
  const bool waited = released;
  other.join();
  HORING_TRY(copied);
  return expect(waited && things.same(),
                "a copy from host to host memory returned before its stream had come to it");
}

Status captures_are_seen(const Bench& bench) {
  const Driver& driver = bench.device->driver();
  HORING_ASSIGN(const auto stream, Stream::create(*bench.device));
  HORING_TRY(device::check_stream(*bench.device, stream.handle()));
  HORING_TRY(bench.capture(stream.handle(), true));
  const Status seen = device::check_stream(*bench.device, stream.handle());
  device::DeviceAddress address = 0;
  int mode = device::kCaptureModeGlobal;  // the bench's context has made it relaxed
  HORING_TRY(
      bench.device->check("cuThreadExchangeStreamCaptureMode", driver.thread_capture_mode(&mode)));
  const DriverResult allocated = driver.memory_allocate(&address, 16);
  static_cast<void>(driver.thread_capture_mode(&mode));
  // The refused call spoils the capture: how it ends does not matter.
  static_cast<void>(bench.capture(stream.handle(), false));
  HORING_TRY(expect(seen.code() == StatusCode::kUnsupported,
                    "a capture is not seen: " + seen.to_string()));
  return expect(allocated == device::kCaptureUnsupported,
                "cuMemAlloc in a capture returns " + std::to_string(allocated));
}

// Ends a capture of `stream` that `meanwhile` must not have spoiled.
template <typename Function>
Status during_capture(const Bench& bench, StreamHandle stream, const Function& meanwhile) {
  HORING_TRY(bench.capture(stream, true));
  const Status status = meanwhile();
  const Status ended = bench.capture(stream, false);
  HORING_TRY(status);
  return ended.with_context("a capture was spoiled");
}

Status relaxed_threads_spoil_no_capture(const Bench& bench) {
  HORING_ASSIGN(const auto captured, Stream::create(*bench.device));
  const auto ask_for_all = [&]() -> Status {
    HORING_ASSIGN(const auto current, CurrentContext::enter(*bench.device));
    HORING_ASSIGN(const Things things, Things::make(bench));  // which allocates
    HORING_TRY(things.down(things.first));
    return finish(bench, things.first.handle());  // which looks at an event
  };
  return during_capture(bench, captured.handle(), [&] {
    Status status;
    std::thread([&] { status = ask_for_all(); }).join();
    return status.ok() ? ask_for_all() : status;  // and by the thread that captures
  });
}

Status captures_hold_the_default_stream(const Bench& bench) {
  const Driver& driver = bench.device->driver();
  StreamHandle blocking = nullptr;
  HORING_TRY(
      bench.device->check("cuStreamCreateWithPriority", driver.stream_create(&blocking, 0, 0)));
  Status status = during_capture(bench, blocking, [&] {
    const Status refused = device::check_stream(*bench.device, nullptr);
    return expect(refused.code() == StatusCode::kUnsupported,
                  "the default stream is not refused: " + refused.to_string());
  });
  HORING_TRY(bench.device->check("cuStreamDestroy", driver.stream_destroy(blocking)));
  return status;
}

// --- Several devices -------------------------------------------------------------------------

Status events_order_devices(const Bench& bench) {
  if (bench.second == nullptr) {
    return {StatusCode::kUnsupported, "there is one device only"};
  }
  HORING_ASSIGN(const Things things, Things::make(bench));
  HORING_ASSIGN(const auto far, Stream::create(*bench.second));
  Held held;
  HORING_TRY(held.hold(*bench.device, things.first.handle()));
  HORING_TRY(things.down(things.first));
  HORING_TRY(things.event.record(things.first.handle()));
  {
    HORING_ASSIGN(const auto current, CurrentContext::enter(*bench.second));
    HORING_TRY(far.wait(things.event));
    HORING_TRY(things.up(far));
    HORING_ASSIGN(const auto event, Event::create(*bench.second));
    HORING_TRY(event.record(far.handle()));
    held.release();
    HORING_TRY(wait_for(event));
  }
  return expect(things.same(), "a stream did not wait for another device's event");
}

// --- Several processes -----------------------------------------------------------------------

Result<device::IpcMemory> exported(const Bench& bench, const DeviceMemory& memory) {
  device::IpcMemory shared{};
  const DriverResult result = bench.device->driver().ipc_export(&shared, memory.address());
  if (result == device::kNotSupported || result == device::kNotPermitted) {
    return Status(StatusCode::kUnsupported,
                  "this system shares no device memory between processes");
  }
  HORING_TRY(bench.device->check("cuIpcGetMemHandle", result));
  return shared;
}

Status own_exports_cannot_be_opened(const Bench& bench) {
  HORING_ASSIGN(const auto memory, DeviceMemory::create(*bench.device, bench.bytes));
  HORING_ASSIGN(const auto shared, exported(bench, memory));
  device::DeviceAddress address = 0;
  const DriverResult result =
      bench.device->driver().ipc_open(&address, shared, device::kIpcLazyPeerAccess);
  return expect(result == device::kInvalidContext,
                "opening an export in its own process returns " + std::to_string(result));
}

std::string hex_of(const device::IpcMemory& shared) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const char byte : shared.reserved) {
    const auto value = static_cast<unsigned char>(byte);
    text += kDigits[value / 16];
    text += kDigits[value % 16];
  }
  return text;
}

device::IpcMemory shared_of(const std::string& hex) {
  device::IpcMemory shared{};
  for (size_t i = 0; i < sizeof shared.reserved && 2 * i + 1 < hex.size(); ++i) {
    shared.reserved[i] = static_cast<char>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  return shared;
}

Status memory_of_another_process(const Bench& bench) {
  if (!bench.again) {
    return {StatusCode::kUnsupported, "this program cannot be run again"};
  }
  HORING_ASSIGN(const Things things, Things::make(bench));
  HORING_TRY(things.down(things.first));
  HORING_TRY(finish(bench, things.first.handle()));
  HORING_ASSIGN(const auto shared, exported(bench, things.memory));
  HORING_TRY(
      expect(bench.again("open", hex_of(shared)) == 0, "another process does not see the memory"));
  HORING_TRY(things.up(things.first));
  HORING_TRY(finish(bench, things.first.handle()));
  // The other process has written its first half.
  const bool zeroed = std::ranges::all_of(things.to.bytes().first(bench.bytes / 2),
                                          [](std::byte byte) { return byte == std::byte{0}; });
  const bool kept = std::ranges::equal(things.from.bytes().last(bench.bytes / 2),
                                       things.to.bytes().last(bench.bytes / 2));
  return expect(zeroed && kept, "what another process wrote is not seen");
}

Status open_memory(const Bench& bench, const std::string& argument) {
  const Driver& driver = bench.device->driver();
  HORING_ASSIGN(const Things things, Things::make(bench));
  device::DeviceAddress address = 0;
  HORING_TRY(bench.device->check(
      "cuIpcOpenMemHandle",
      driver.ipc_open(&address, shared_of(argument), device::kIpcLazyPeerAccess)));
  void* const memory = device::pointer_to(address);
  HORING_TRY(things.first.copy(things.to.bytes().data(), memory, bench.bytes));
  HORING_TRY(finish(bench, things.first.handle()));
  HORING_TRY(expect(things.same(), "opened memory has other bytes"));
  HORING_ASSIGN(const auto facts, device::facts_of(*bench.device, memory));
  HORING_TRY(
      expect(facts.kind == device::PointerFacts::Kind::kDevice, "opened memory is not known"));
  std::ranges::fill(things.to.bytes(), std::byte{0});
  HORING_TRY(things.first.copy(memory, things.to.bytes().data(), bench.bytes / 2));
  HORING_TRY(finish(bench, things.first.handle()));
  return bench.device->check("cuIpcCloseMemHandle", driver.ipc_close(address));
}

Status a_fault_loses_the_context(const Bench& bench) {
  if (!bench.again) {
    return {StatusCode::kUnsupported, "this program cannot be run again"};
  }
  return expect(bench.again("fault", "") == 0, "calls work on after a kernel's fault");
}

Status fault(const Bench& bench) {
  HORING_ASSIGN(const Store store, Store::load(bench));
  HORING_ASSIGN(const Things things, Things::make(bench));
  HORING_TRY(store.run(things.first.handle(), device::pointer_to(16), 1));
  const Status status = finish(bench, things.first.handle());
  HORING_TRY(expect(status.message().find("the context is lost") != std::string::npos,
                    "a kernel's fault is not reported: " + status.to_string()));
  return expect(!DeviceMemory::create(*bench.device, 16).ok(), "allocating works after a fault");
}

constexpr Probe kProbes[] = {
    {"A1", "primary_context_is_shared", primary_context_is_shared},
    {"A2", "threads_begin_without_context", threads_begin_without_context},
    {"A3", "pinned_memory_has_one_address", pinned_memory_has_one_address},
    {"A4", "memory_kinds_are_told_apart", memory_kinds_are_distinguished},
    {"A5", "freed_memory_is_unknown", freed_memory_is_unknown},
    {"A6", "streams_know_their_context", streams_know_their_context},
    {"A7", "copies_return_before_they_run", copies_return_before_they_run},
    {"A8", "streams_keep_their_order", streams_keep_their_order},
    {"A9", "passed_events_show_bytes", passed_events_show_bytes},
    {"A10", "events_order_streams", events_order_streams},
    {"A11", "waits_keep_the_record_they_saw", waits_keep_the_record_they_saw},
    {"A12", "events_begin_as_passed", events_begin_as_passed},
    {"A13", "held_streams_hold_no_other", held_streams_hold_no_other},
    {"A14", "host_functions_run_in_order_elsewhere", host_functions_run_in_order_elsewhere},
    {"A15", "default_stream_waits_for_blocking_ones", default_stream_waits_for_blocking_ones},
    {"A16", "destroyed_streams_finish", destroyed_streams_finish},
    {"A17", "launches_copy_their_arguments", launches_copy_their_arguments},
    {"A18", "captures_are_seen", captures_are_seen},
    {"A19", "events_order_devices", events_order_devices},
    {"A20", "own_exports_cannot_be_opened", own_exports_cannot_be_opened},
    {"A21", "memory_of_another_process", memory_of_another_process},
    {"A22", "a_fault_loses_the_context", a_fault_loses_the_context},
    {"A23", "mapped_memory_is_told_by_segments", mapped_memory_is_known_by_segments},
    {"A24", "relaxed_threads_spoil_no_capture", relaxed_threads_spoil_no_capture},
    {"A25", "captures_hold_the_default_stream", captures_hold_the_default_stream},
    {"A26", "copies_between_host_memory_wait", copies_between_host_memory_wait},
};

}  // namespace

std::span<const Probe> probes() {
  return kProbes;
}

Status run_again(const Bench& bench, const std::string& what, const std::string& argument) {
  return what == "open" ? open_memory(bench, argument) : fault(bench);
}

}  // namespace ho::device_suite
