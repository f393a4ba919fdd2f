// A CUDA driver without a GPU, for tests: a table of calls (device/driver.hpp) behind which memory,
// streams, events, kernels and sharing between processes work as docs/design/device.md says that
// CUDA's do. It checks its caller: what is wrong becomes a violation, after which every call fails.
//
// There is one per process, since a driver's calls know no object. All of it may be called by any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "clock.hpp"
#include "device/driver.hpp"

namespace ho::cuda_double {

enum class Mode : uint8_t {
  kEager,   // work runs in the call that enqueues it; host functions on another thread
  kRandom,  // another thread takes any work whose order permits it
  // Nothing runs before somebody queries or waits, and then only what that takes. Where nobody
  // calls for idle_ms, the oldest host function (or else the oldest work) and what it takes.
  kLazy,
  // In virtual time, which starts at 0 and passes only in advance() (or where a call waits): work
  // runs when its time is over. Host functions are work like any other, and there is no thread.
  kTimed,
};

// Of kTimed, in bytes per virtual nanosecond. A copy or a kernel takes the longest of: the bytes
// that it reads from pinned memory, and those that it writes there, at the bus's rate; the largest
// range of device memory that it touches, whosever it is, at the device's. All streams of a device
// share its bus, which carries one piece of work at a time in each direction.
struct Rates {
  double bus = 1;
  double device = 1;
};

// Of kTimed: what the host spends in a call. What a call gives the device begins after that.
struct HostTimes {
  int64_t start_ns = 0;   // launch, copy_async
  int64_t record_ns = 0;  // event_record
  int64_t query_ns = 0;   // event_query
};

struct Config {
  Mode mode = Mode::kEager;
  uint64_t seed = 1;  // of kRandom
  int devices = 2;
  size_t memory_bytes = size_t{1} << 30U;  // of each device
  // Work of streams on one channel runs in the order in which it was enqueued. 0: a channel each.
  int channels = 0;
  size_t queue_depth = 0;  // enqueueing blocks where so much work is pending; 0: never
  int idle_ms = 2;
  bool allow_pageable = false;  // asynchronous copies of pageable memory: as CUDA's, no violation
  bool ipc = true;              // memory can be shared with other processes
  bool peers = true;            // devices can reach each other's memory
  bool one_model = false;       // devices have one name; else their numbers are in it
  bool print = false;           // violations, to stderr, as they come
  Rates rates{};                // of kTimed
  HostTimes host_times{};       // likewise
};
// From HORING_TEST_CUDA_MODE (eager, random, lazy), _SEED, _DEVICES, _CHANNELS, _QUEUE_DEPTH, _IPC
// and _PEERS (0 or 1). What is not set is as `defaults` has it.
[[nodiscard]] Result<Config> config_from_environment(Config defaults = {});

// Always the same table. Before the first reset() it works as a default Config says.
[[nodiscard]] const device::Driver& driver();
// Forgets everything: work that is pending, memory, objects, counts, faults, violations; kernels
// remain. No other thread is in a call.
void reset(const Config& config = {});
// For test programs: reset() by the environment, with the faults of HORING_TEST_CUDA_FAIL
// (call:k:result) and HORING_TEST_CUDA_DROP_WAIT (k) and HORING_TEST_CUDA_DROP_SITE (id). A program
// that ends with violations prints them and ends with status 86.
[[nodiscard]] Status start_from_environment(const Config& defaults = {});
inline constexpr int kViolationExit = 86;

// --- What went wrong and what happened ------------------------------------------------------

// In order. Each names the work and its number, and of two that conflict both.
[[nodiscard]] std::vector<std::string> violations();
// Forgets them too, so that calls work again.
std::vector<std::string> take_violations();

// Names are the table's: "copy_async". Since reset() or forget_counts().
[[nodiscard]] uint64_t calls(std::string_view name);
[[nodiscard]] uint64_t all_calls();
// By all launches of the kernel: how many there are depends on what was ready together.
[[nodiscard]] uint64_t bytes_written_by(std::string_view kernel);
// Calls that wait for the device, or may: stream_synchronize, copies to pageable memory and from
// host to host, and allocating, freeing, loading.
[[nodiscard]] uint64_t synchronizing_calls();
[[nodiscard]] uint64_t allocations_while_pending();
void forget_counts();

struct Live {
  size_t contexts = 0;  // primary contexts that are retained
  size_t streams = 0;
  size_t events = 0;
  size_t device_memory = 0;
  size_t pinned_memory = 0;
  size_t opened_memory = 0;
  size_t modules = 0;
  size_t pending = 0;  // work that is not done
  size_t device_memory_bytes = 0;
  [[nodiscard]] bool none() const {
    return contexts + streams + events + device_memory + pinned_memory + opened_memory + modules +
               pending ==
           0;
  }
};
[[nodiscard]] Live live();

// --- Faults ---------------------------------------------------------------------------------

// The k-th of these calls from now on (1: the next) returns the result. "": of all calls. With
// device::kIllegalAddress or kLaunchFailed the context is lost: every later call returns it too.
void fail_call(std::string_view name, uint64_t k, device::DriverResult result);
void lose_context();
// The k-th stream_wait_event from now on does nothing.
void drop_wait(uint64_t k);
// Where stream_wait_event was called from, and how often.
struct WaitSite {
  uint64_t id = 0;  // the same in every run of one build
  std::string text;
  uint64_t waits = 0;
  bool orders_work = false;  // copies or kernels come after one; else host functions alone
};
[[nodiscard]] std::vector<WaitSite> wait_sites();
void drop_waits_of(uint64_t site);
[[nodiscard]] uint64_t dropped_waits();
// As if this thread captured the stream into a graph, in a mode of cuda.h's. A call that is refused
// because of a capture spoils it. CUDA does not list the calls that it refuses to threads that are
// not in relaxed mode: here it is all that take a context.
void begin_capture(device::StreamHandle stream, int mode = device::kCaptureModeGlobal);
// False: it was spoiled.
[[nodiscard]] bool end_capture(device::StreamHandle stream);
// A context of the device that is not its primary one.
[[nodiscard]] device::ContextHandle other_context(int ordinal);
// Memory that migrates between host and devices, of the current context. 0 where there is none.
[[nodiscard]] device::DeviceAddress allocate_managed(size_t bytes);
// Memory of the current context's device that was mapped in segments: one range of addresses, of
// which the driver tells one segment at a time. Freed by unmap().
[[nodiscard]] device::DeviceAddress map_segments(size_t bytes, size_t segment_bytes);
void unmap(device::DeviceAddress address);
// What the stream was made with. The range is 0 to -5.
[[nodiscard]] int priority_of(device::StreamHandle stream);
inline constexpr int kGreatestPriority = -5;

// --- Order ----------------------------------------------------------------------------------

// Threads in contexts of one device count as ordered by the order of their calls: other tests see
// whether they are. A thread that says a host of its own is ordered with threads of that host.
// -1: by its device again.
void use_host(int host);
// What this thread knows has happened, to go with a message; and what a message that came knows.
[[nodiscard]] Clock take_clock();
void join_clock(const Clock& clock);
// This thread touches memory that work touches too (pinned memory).
void host_reads(const void* memory, size_t bytes);
void host_writes(const void* memory, size_t bytes);
// What is in device memory, for tests; the same as host_reads and host_writes of it.
[[nodiscard]] std::vector<std::byte> device_bytes(device::DeviceAddress address, size_t bytes);
void set_device_bytes(device::DeviceAddress address, std::span<const std::byte> bytes);

// --- Work of several devices at once ------------------------------------------------------------

// Of a device address the place where its bytes are; of any other pointer itself.
using Translate = std::function<void*(const void*)>;
struct TouchedRange {
  const void* begin = nullptr;
  size_t bytes = 0;
  bool writes = false;
  // Of a launch that does several things at once: which of them. What one writes no other touches.
  uint32_t item = 0;
};

// Of this thread's context; -1: it has none.
[[nodiscard]] int current_device();
// What streams of several devices do together, a part on each, as a library's collectives do. No
// part begins before all are enqueued and every stream has come to its own. Until then each holds
// its stream, and every part that its device was given later; one part alone holds its stream only.
// In virtual time it takes what it says, and no device's bus.
struct JointState;
class JointWork {
 public:
  // `body` runs once, when all parts have begun.
  JointWork(size_t parts,
            std::function<void(const Translate& translate)> body,
            int64_t takes_ns = 0);
  // This thread's part. `circle` says so where it can never begin: what waits for what.
  [[nodiscard]] device::DriverResult enqueue(device::StreamHandle stream,
                                             std::string what,
                                             std::vector<TouchedRange> ranges,
                                             std::string& circle);
  // The device's part does nothing any more, and holds nothing; what is left can never begin.
  void give_up(int device);
  // All parts are over.
  [[nodiscard]] bool done() const;

 private:
  std::shared_ptr<JointState> state_;
};
// Parts on this device do not begin before it is let go.
void hold_joint_work(int device, bool held);
// Parts on this device that are not over, nor given up.
[[nodiscard]] size_t joint_work(int device);

// --- Virtual time -------------------------------------------------------------------------------

[[nodiscard]] int64_t now_ns();
// When the next work that is under way will have run, or the host will have given it to the device;
// nothing: there is none.
[[nodiscard]] std::optional<int64_t> next_event_ns();
// Runs what has ended by then. Gives the devices of which an event has passed, or a host function
// run.
std::set<int> advance(int64_t to_ns);
// This thread's event_query of what is not over lets the next work end, as a call that waits does.
// Of several threads that do, none has work to enqueue that is to begin before what another waits
// for has ended.
void wait_by_queries(bool waits);
// What the host has spent in calls for the device since this was last taken. Until then it is on
// its way: its calls come so much later than now_ns().
[[nodiscard]] int64_t host_ns(int device);
int64_t take_host_ns(int device);

// --- Kernels --------------------------------------------------------------------------------

using KernelBody = std::function<void(void** arguments, const Translate& translate)>;
using KernelRanges = std::function<std::vector<TouchedRange>(void** arguments)>;
// A kernel of the module that driver().kernels holds. `argument_bytes` are its parameters' sizes: a
// launch copies them, as the driver does.
void register_kernel(std::string_view name,
                     std::vector<size_t> argument_bytes,
                     KernelBody body,
                     KernelRanges ranges);

}  // namespace ho::cuda_double
