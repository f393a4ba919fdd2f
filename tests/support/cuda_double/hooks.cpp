// What tests ask of the double and tell it.
#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "calls.hpp"

namespace ho::cuda_double {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv((std::string("HORING_TEST_CUDA_") + name).c_str());
  return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
}

Result<std::optional<uint64_t>> number(const char* name) {
  const auto text = variable(name);
  if (!text) {
    return std::optional<uint64_t>();
  }
  uint64_t value = 0;
  const char* const end = text->data() + text->size();
  if (const auto parsed = std::from_chars(text->data(), end, value);
      parsed.ec != std::errc() || parsed.ptr != end) {
    return invalid(std::string("HORING_TEST_CUDA_") + name + "=" + *text + " is no whole number");
  }
  return std::optional<uint64_t>(value);
}

template <typename T>
Status take_number(const char* name, T& into) {
  HORING_ASSIGN(const auto value, number(name));
  if (value) {
    into = static_cast<T>(*value);
  }
  return {};
}

// call:k:result
Status take_fault() {
  const auto text = variable("FAIL");
  if (!text) {
    return {};
  }
  const size_t first = text->find(':');
  const size_t last = text->rfind(':');
  if (first == std::string::npos || last == first) {
    return invalid("HORING_TEST_CUDA_FAIL=" + *text + " is not call:k:result");
  }
  fail_call(text->substr(0, first),
            std::strtoull(text->c_str() + first + 1, nullptr, 10),
            static_cast<device::DriverResult>(std::strtol(text->c_str() + last + 1, nullptr, 10)));
  return {};
}

void report_at_exit() {
  const auto all = violations();
  for (const std::string& text : all) {
    std::fprintf(stderr, "CUDA double: %s\n", text.c_str());
  }
  if (!all.empty()) {
    std::_Exit(kViolationExit);
  }
}

// For what is no call: the lock, and the order of host threads.
class Hook {
 public:
  Hook() : machine_(machine()), lock_(machine_.mutex) { machine_.join_host(); }
  Hook(const Hook&) = delete;
  Hook& operator=(const Hook&) = delete;
  ~Hook() { machine_.publish_to_host(); }
  Machine* operator->() { return &machine_; }
  Machine& operator*() { return machine_; }

 private:
  Machine& machine_;
  Machine::Lock lock_;
};

}  // namespace

Result<Config> config_from_environment(Config defaults) {
  Config config = defaults;
  if (const auto mode = variable("MODE")) {
    if (*mode != "eager" && *mode != "random" && *mode != "lazy") {
      return invalid("HORING_TEST_CUDA_MODE=" + *mode + " is none of eager, random, lazy");
    }
    config.mode = *mode == "eager" ? Mode::kEager : *mode == "random" ? Mode::kRandom : Mode::kLazy;
  }
  HORING_TRY(take_number("SEED", config.seed));
  HORING_TRY(take_number("DEVICES", config.devices));
  HORING_TRY(take_number("CHANNELS", config.channels));
  HORING_TRY(take_number("QUEUE_DEPTH", config.queue_depth));
  HORING_TRY(take_number("IPC", config.ipc));
  HORING_TRY(take_number("PEERS", config.peers));
  return config;
}

namespace {
std::atomic<bool> was_reset = false;
}  // namespace

void reset(const Config& config) {
  was_reset = true;
  machine().start(config);
}

Status start_from_environment(const Config& defaults) {
  HORING_ASSIGN(Config config, config_from_environment(defaults));
  config.print = true;
  if (!was_reset) {  // what a program has said before its first driver() holds
    reset(config);
  }
  HORING_TRY(take_fault());
  uint64_t k = 0;
  HORING_TRY(take_number("DROP_WAIT", k));
  if (k > 0) {
    drop_wait(k);
  }
  uint64_t site = 0;
  HORING_TRY(take_number("DROP_SITE", site));
  if (site > 0) {
    drop_waits_of(site);
  }
  std::atexit(report_at_exit);
  return {};
}

std::vector<std::string> violations() {
  const Machine::Lock lock(machine().mutex);
  return machine().violations;
}

std::vector<std::string> take_violations() {
  const Machine::Lock lock(machine().mutex);
  return std::exchange(machine().violations, {});
}

uint64_t calls(std::string_view name) {
  const Machine::Lock lock(machine().mutex);
  const auto found = machine().counts.find(name);
  return found == machine().counts.end() ? 0 : found->second;
}

uint64_t bytes_written_by(std::string_view kernel) {
  const Machine::Lock lock(machine().mutex);
  const auto found = machine().written_bytes.find(kernel);
  return found == machine().written_bytes.end() ? 0 : found->second;
}

uint64_t all_calls() {
  const Machine::Lock lock(machine().mutex);
  uint64_t sum = 0;
  for (const auto& [name, count] : machine().counts) {
    sum += count;
  }
  return sum;
}

uint64_t synchronizing_calls() {
  const Machine::Lock lock(machine().mutex);
  return machine().synchronizing;
}

uint64_t allocations_while_pending() {
  const Machine::Lock lock(machine().mutex);
  return machine().allocations_while_pending;
}

void forget_counts() {
  const Machine::Lock lock(machine().mutex);
  machine().counts.clear();
  machine().written_bytes.clear();
  machine().synchronizing = 0;
  machine().allocations_while_pending = 0;
}

Live live() {
  const Machine::Lock lock(machine().mutex);
  const Machine& state = machine();
  Live live;
  for (const auto& [device, count] : state.retained) {
    live.contexts += count;
  }
  live.streams = state.streams.size();
  live.events = state.events.size();
  live.device_memory = state.regions.living(MemoryKind::kDevice);
  live.pinned_memory = state.regions.living(MemoryKind::kPinned);
  live.opened_memory = state.regions.living(MemoryKind::kOpened);
  for (int device = 0; device < state.config.devices; ++device) {
    live.device_memory_bytes += state.regions.living_bytes(device);
  }
  live.modules = state.modules.size();
  live.pending = state.pending.size();
  return live;
}

void fail_call(std::string_view name, uint64_t k, device::DriverResult result) {
  const Machine::Lock lock(machine().mutex);
  machine().faults.push_back({std::string(name), k, result});
}

void lose_context() {
  const Machine::Lock lock(machine().mutex);
  machine().lost = device::kIllegalAddress;
}

void drop_wait(uint64_t k) {
  const Machine::Lock lock(machine().mutex);
  machine().drop_wait_in = k;
}

std::vector<WaitSite> wait_sites() {
  const Machine::Lock lock(machine().mutex);
  std::vector<WaitSite> sites;
  for (const auto& [id, site] : machine().wait_sites) {
    sites.push_back(site);
  }
  return sites;
}

void drop_waits_of(uint64_t site) {
  const Machine::Lock lock(machine().mutex);
  machine().dropped_sites.insert(site);
}

uint64_t dropped_waits() {
  const Machine::Lock lock(machine().mutex);
  return machine().dropped_waits;
}

void begin_capture(device::StreamHandle stream, int mode) {
  const Machine::Lock lock(machine().mutex);
  StreamState* const state = machine().stream_of(stream);
  if (state != nullptr) {
    state->capture = Capture{mode, machine().thread().component};
  }
}

bool end_capture(device::StreamHandle stream) {
  const Machine::Lock lock(machine().mutex);
  StreamState* const state = machine().stream_of(stream);
  const auto capture = state == nullptr ? std::nullopt : std::exchange(state->capture, {});
  return capture && !capture->spoiled;
}

int priority_of(device::StreamHandle stream) {
  const Machine::Lock lock(machine().mutex);
  const StreamState* const state = machine().stream_of(stream);
  return state == nullptr ? 1 : state->priority;
}

device::ContextHandle other_context(int ordinal) {
  const Machine::Lock lock(machine().mutex);
  auto context = std::make_unique<ContextState>();
  context->handle = std::bit_cast<device::ContextHandle>(machine().next_handle());
  context->device = ordinal;
  context->primary = false;
  machine().contexts.push_back(std::move(context));
  return machine().contexts.back()->handle;
}

device::DeviceAddress allocate_managed(size_t bytes) {
  const Hook hook;
  Machine& state = machine();
  const ContextState* const context = state.current();
  const auto region = context == nullptr ? nullptr : make_host_region(bytes);
  if (region == nullptr) {
    return 0;
  }
  region->kind = MemoryKind::kManaged;
  region->device = context->device;
  state.regions.add(region);
  return region->begin;
}

device::DeviceAddress map_segments(size_t bytes, size_t segment_bytes) {
  const Hook hook;
  Machine& state = machine();
  const ContextState* const context = state.current();
  const auto region = context == nullptr ? nullptr : make_device_region(bytes, true);
  if (region == nullptr) {
    return 0;
  }
  region->device = context->device;
  region->segment_bytes = segment_bytes;
  state.regions.add(region);
  return region->begin;
}

void unmap(device::DeviceAddress address) {
  const Hook hook;
  const auto region = machine().regions.find(address);
  if (region != nullptr && region->segment_bytes != 0) {
    region->end(machine().call_number);
  }
}

void use_host(int host) {
  const Machine::Lock lock(machine().mutex);
  machine().thread().host = host;
}

Clock take_clock() {
  Hook hook;
  const ThreadState& state = hook->thread();
  return state.in_work != nullptr ? state.in_work->clock : state.clock;
}

void join_clock(const Clock& clock) {
  Hook hook;
  hook->thread().clock.join(clock);
}

void host_reads(const void* memory, size_t bytes) {
  Hook hook;
  hook->host_access(memory, bytes, false, "a read by the host");
}

void host_writes(const void* memory, size_t bytes) {
  Hook hook;
  hook->host_access(memory, bytes, true, "a write by the host");
}

std::vector<std::byte> device_bytes(device::DeviceAddress address, size_t bytes) {
  Hook hook;
  const auto* const memory = std::bit_cast<const void*>(address);
  hook->host_access(memory, bytes, false, "a test's read");
  bool found = false;
  const auto region = hook->region_of(memory, bytes, "a test's read", found);
  if (region == nullptr) {
    return {};
  }
  const std::byte* const begin = region->alias + (address - region->begin);
  return {begin, begin + bytes};
}

void set_device_bytes(device::DeviceAddress address, std::span<const std::byte> bytes) {
  Hook hook;
  const auto* const memory = std::bit_cast<const void*>(address);
  hook->host_access(memory, bytes.size(), true, "a test's write");
  bool found = false;
  const auto region = hook->region_of(memory, bytes.size(), "a test's write", found);
  if (region != nullptr) {
    std::memcpy(region->alias + (address - region->begin), bytes.data(), bytes.size());
  }
}

int64_t now_ns() {
  const Machine::Lock lock(machine().mutex);
  return machine().now_ns;
}

std::optional<int64_t> next_event_ns() {
  const Machine::Lock lock(machine().mutex);
  return machine().next_event_ns();
}

std::set<int> advance(int64_t to_ns) {
  Machine::Lock lock(machine().mutex);
  std::set<int> devices;
  for (auto next = machine().next_event_ns(); next && *next <= to_ns;
       next = machine().next_event_ns()) {
    if (const auto device = machine().pass_event(lock)) {
      devices.insert(*device);
    }
  }
  machine().now_ns = std::max(machine().now_ns, to_ns);
  return devices;
}

int64_t host_ns(int device) {
  const Machine::Lock lock(machine().mutex);
  return machine().host_ns[device];
}

int64_t take_host_ns(int device) {
  const Machine::Lock lock(machine().mutex);
  return std::exchange(machine().host_ns[device], 0);
}

void register_kernel(std::string_view name,
                     std::vector<size_t> argument_bytes,
                     KernelBody body,
                     KernelRanges ranges) {
  const Machine::Lock lock(machine().mutex);
  machine().kernels[std::string(name)] = {
      std::move(argument_bytes), std::move(body), std::move(ranges)};
}

}  // namespace ho::cuda_double
