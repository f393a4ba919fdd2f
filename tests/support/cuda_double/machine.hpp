// The double's state: contexts, streams, events, and work that is enqueued and carried out.
//
// Order is fixed when work is enqueued: it comes after what its stream had before, after the events
// that the stream waits for, and after all that the enqueuing thread knows of. When it runs is
// another question, which Mode and channels decide within that order.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "cuda_double.hpp"
#include "memory.hpp"

namespace ho::cuda_double {

struct ContextState {
  device::ContextHandle handle = nullptr;
  int device = 0;
  bool primary = true;
  std::set<int> peers;  // devices whose memory kernels of this context may touch
};

struct Operation;

struct JointState {
  size_t parts = 0;
  std::vector<std::shared_ptr<Operation>> enqueued;  // those that are not over
  size_t over = 0;
  std::function<void(const Translate& translate)> body;
  int64_t takes_ns = 0;  // kTimed
};

enum class Progress : uint8_t { kPending, kRunning, kDone };

struct Operation {
  Step step;
  uint64_t number = 0;  // of all work, from 1
  int device = 0;
  bool on_host = false;  // a host function
  bool wanted = false;   // kLazy: somebody waits for it
  Progress progress = Progress::kPending;
  std::vector<std::shared_ptr<Operation>> after;
  std::shared_ptr<Operation> channel_before;     // no order for its caller, but it runs later
  std::shared_ptr<JointState> joint;             // what it is a part of
  std::shared_ptr<Operation> part_before;        // likewise, of the part before on its device
  std::vector<std::shared_ptr<Region>> regions;  // what it touches
  std::function<void()> body;                    // may be empty
  // kTimed
  int64_t takes_ns = 0;
  int64_t not_before_ns = 0;       // the host gives it to the device then
  std::array<bool, 2> uses_bus{};  // towards the device, and from it
  std::optional<int64_t> ends_ns;  // once it is under way
};
using OperationPtr = std::shared_ptr<Operation>;

struct Capture {
  int mode = device::kCaptureModeGlobal;
  uint64_t thread = 0;  // its component
  bool spoiled = false;
};

struct StreamState {
  uint64_t id = 0;  // for messages, from 1
  device::StreamHandle handle = nullptr;
  ContextState* context = nullptr;
  bool blocking = false;  // ordered with the default stream
  int priority = 0;
  std::optional<Capture> capture;
  uint64_t component = 0;
  uint64_t steps = 0;
  std::set<uint64_t> waited_at;  // WaitSite::id
  Clock clock;
  OperationPtr last;
};

struct EventState {
  ContextState* context = nullptr;
  OperationPtr recorded;
};

struct ModuleState {
  ContextState* context = nullptr;
};

struct KernelDefinition {
  std::vector<size_t> argument_bytes;
  KernelBody body;
  KernelRanges ranges;
};

// What is asked to be enqueued.
struct Request {
  std::string what;
  std::vector<TouchedRange> ranges;
  std::vector<OperationPtr> also_after;
  bool on_host = false;
  bool is_kernel = false;
  std::shared_ptr<JointState> joint;
  std::function<void()> body;
};

struct Fault {
  std::string name;
  uint64_t left = 0;
  device::DriverResult result = 0;
};

// A host thread as the double sees it.
struct ThreadState {
  uint64_t generation = 0;  // of the machine when it was last used
  uint64_t component = 0;
  uint64_t steps = 0;
  Clock clock;
  int host = -1;  // use_host()
  int capture_mode = device::kCaptureModeGlobal;
  std::vector<ContextState*> contexts;
  const Step* in_work = nullptr;  // on a host function's thread: the step that it is part of
  bool waits_by_queries = false;  // kTimed
};

class Machine {
 public:
  Machine() = default;
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  ~Machine();

  void start(const Config& config);
  [[nodiscard]] ThreadState& thread();

  // All below: with the lock held.
  using Lock = std::unique_lock<std::mutex>;
  [[nodiscard]] ContextState* context_of(device::ContextHandle handle);
  [[nodiscard]] ContextState* current();
  [[nodiscard]] StreamState* stream_of(device::StreamHandle handle);  // null: the default stream
  // Null: none of the streams that wait for the context's default stream is captured.
  [[nodiscard]] StreamState* captured_with_default(const ContextState* context);
  // Whether a call that may spoil captures is refused to this thread. Then it has done so.
  [[nodiscard]] bool spoils_a_capture();
  [[nodiscard]] StreamState* add_stream(ContextState* context, bool blocking, bool is_default);
  // Null where the request is refused; `result` says how. Runs it, or has it run.
  OperationPtr enqueue(Lock& lock,
                       StreamState& stream,
                       Request request,
                       device::DriverResult& result);
  void want(const OperationPtr& operation);
  void wait_for(Lock& lock, const OperationPtr& operation);
  // Runs what is ready, where the mode does that in calls.
  void run_what_is_ready(Lock& lock);
  // What waits for what, where a part of joint work waits for itself; "": it does not.
  [[nodiscard]] static std::string circle_of(const OperationPtr& part);
  // What is pending on the device is done on return.
  void drain(Lock& lock, int device);
  // kTimed: when the next work ends or can begin; and its end, or beginning, in order of time, then
  // of numbers. Gives the device, if an event passed there or a host function ran.
  [[nodiscard]] std::optional<int64_t> next_event_ns() const;
  std::optional<int> pass_event(Lock& lock);
  // The next one, unless another thread runs work, or there is none. Whether one passed.
  bool pass_event_if_any(Lock& lock);
  void spend_host_time(std::string_view call);
  [[nodiscard]] bool is_pending(int device) const;
  void violation(std::string text);
  // Of what this thread does itself; counts as part of a host function where it is in one.
  [[nodiscard]] Step host_step(std::string what);
  void host_access(const void* memory, size_t bytes, bool writes, const char* what);
  // Checks that work of a stream may touch a range, and notes that it does.
  bool touch(Operation& operation,
             const StreamState& stream,
             const TouchedRange& range,
             bool is_kernel);
  // False, and a violation, where one of the things that a launch does writes what another touches.
  bool items_are_apart(const Request& request);
  // Null, and a violation, where the range does not lie within one living region. `found` false: it
  // is ordinary memory.
  [[nodiscard]] std::shared_ptr<Region> region_of(const void* begin,
                                                  size_t bytes,
                                                  const std::string& what,
                                                  bool& found);
  // Threads of one host know of each other's calls.
  // In virtual time that is most often so, and then nobody has to be told.
  [[nodiscard]] bool is_one_thread() const { return config.mode == Mode::kTimed && threads_ == 1; }
  void join_host();
  void publish_to_host();
  [[nodiscard]] std::uintptr_t next_handle() { return handles_ += 16; }

  std::mutex mutex;
  Config config;
  uint64_t generation = 0;
  uint64_t call_number = 0;
  bool initialized = false;
  device::DriverResult lost = device::kSuccess;
  std::map<std::string, uint64_t, std::less<>> counts;
  std::map<std::string, uint64_t, std::less<>> written_bytes;  // by kernel
  uint64_t synchronizing = 0;
  uint64_t allocations_while_pending = 0;
  std::vector<Fault> faults;
  std::vector<std::string> violations;
  uint64_t drop_wait_in = 0;
  std::set<uint64_t> dropped_sites;
  uint64_t dropped_waits = 0;
  std::map<uint64_t, WaitSite> wait_sites;
  std::vector<std::unique_ptr<ContextState>> contexts;
  std::map<int, size_t> retained;  // primary contexts, by device
  std::unordered_map<device::StreamHandle, std::unique_ptr<StreamState>> streams;
  std::map<ContextState*, std::unique_ptr<StreamState>> default_streams;
  std::unordered_map<device::EventHandle, EventState> events;
  std::unordered_map<device::ModuleHandle, ModuleState> modules;
  std::unordered_map<device::FunctionHandle, std::string> functions;
  std::map<std::string, KernelDefinition, std::less<>> kernels;
  Regions regions;
  std::deque<OperationPtr> pending;
  int64_t now_ns = 0;              // kTimed
  std::map<int, int64_t> host_ns;  // kTimed: spent and not taken, by device
  std::set<int> held_devices;      // hold_joint_work()

 private:
  void stop();
  void work(bool on_host);
  [[nodiscard]] OperationPtr choose(bool on_host);
  void run(Lock& lock, const OperationPtr& operation);
  void run_at_once(Lock& lock);
  void want_something();
  void set_price(Operation& operation, const std::vector<TouchedRange>& ranges) const;
  void queue_timed(Lock& lock,
                   const OperationPtr& operation,
                   const std::vector<TouchedRange>& ranges);
  // True: an event passed, or a host function ran.
  bool start_timed(Lock& lock, std::set<int> devices);
  // Its stream has come to it; of joint work every part's has.
  [[nodiscard]] bool is_ready(const Operation& operation) const;
  [[nodiscard]] bool is_next(const Operation& operation) const;
  void end(const OperationPtr& operation);

  std::uintptr_t handles_ = 0x10000;
  uint64_t components_ = 0;
  size_t threads_ = 0;  // that have called since it was new
  uint64_t operations_ = 0;
  uint64_t stream_ids_ = 0;
  std::map<int, OperationPtr> last_on_channel_;
  std::map<int, OperationPtr> last_part_;                           // of joint work, by device
  std::map<std::pair<int64_t, uint64_t>, OperationPtr> under_way_;  // kTimed, by end and number
  std::set<std::pair<int64_t, int>> queued_;  // kTimed: when the host gives work to which device
  std::map<int, std::array<bool, 2>> bus_in_use_;  // kTimed, by device
  size_t running_ = 0;                             // kTimed: bodies, for which time stands still
  std::map<int, Clock> hosts_;
  std::mt19937_64 random_;
  std::condition_variable changed_;
  std::thread worker_;
  std::thread host_worker_;  // host functions may block: they must hold no other stream
  bool stopping_ = false;
};

[[nodiscard]] Machine& machine();
// Where work finds the bytes of an address: a Translate.
[[nodiscard]] void* alias_of(const void* pointer);

}  // namespace ho::cuda_double
