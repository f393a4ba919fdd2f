// Drives all operations of one communicator on one rank.
//
// There is one driver at a time: the thread that calls a blocking operation or waits for a request,
// else a progress thread (made with the first background request). The driver holds the mutex while
// it moves pieces and lets go of it while it sleeps, so that other threads can submit, abort or ask
// where the rank is.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "exec/call.hpp"
#include "exec/call_history.hpp"
#include "exec/calling_threads.hpp"
#include "exec/engine_owner.hpp"
#include "exec/leave_notices.hpp"
#include "exec/long_wait.hpp"
#include "exec/point_to_point.hpp"
#include "exec/run.hpp"
#include "os/clock.hpp"
#include "os/fd.hpp"
#include "transport/shm/shm_transport.hpp"
#include "transport/transport.hpp"

namespace ho {

// One submitted operation. Owned jointly by the engine and the thread that waits for it.
class Operation {
 public:
  [[nodiscard]] const OpReport& report() const { return report_; }  // once ended

 private:
  friend class Engine;
  std::unique_ptr<Run> run_;
  std::unique_ptr<std::byte[]> scratch_;
  // Instead, where a device adds.
  std::optional<device::PinnedMemory> pinned_scratch_;
  std::optional<device::DeviceMemory> device_scratch_;
  std::optional<device::Event> entry_;  // not to be started before it
  bool on_device_ = false;
  bool joinable_ = false;  // all that the device has to do was started: joins were woken
  std::shared_ptr<const PartToCome> next_;
  OpReport earlier_;  // of the run before
  MadeCall call_;     // as the ranks compare it: of the first part
  LongWait long_wait_;
  OperationPlace place_;
  uint32_t held_count_ = 0;  // threads that wait for its end without a limit of their own
  bool background_ = false;
  bool started_ = false;
  bool ended_ = false;
  Status status_;
  OpReport report_;
};

struct EngineOptions {
  BindingLimits limits;
  std::chrono::nanoseconds spin{0};
  std::vector<uint32_t> progress_cpus;  // for the progress thread; empty: anywhere
  bool trace = false;
  GlobalRank self;
  uint32_t world_size = 1;
  uint16_t communicator = 0;
  // Of calls with device memory; outlives the engine. Null: there are none.
  device::Work* work = nullptr;
  // Told which threads call and wait. Null: nobody asks.
  std::shared_ptr<CallingThreads> threads;
};

// Where a channel of this rank is; the communicator makes the stall report's RankState from it.
struct ChannelState {
  uint8_t channel = 0;
  uint32_t entered = 0;
  uint32_t completed = 0;
  std::string operation;
  std::string waiting;
  uint32_t held = 0;  // the first operation that a thread waits for without a limit; 0: none
};

// What this rank has taken part in, for those who may be slower.
struct EngineProgress {
  bool failed = false;
  std::array<ChannelProgress, kChannelCount> channels;
  std::vector<PairProgress> pairs;
};

class Engine {
 public:
  static constexpr std::chrono::milliseconds kDecisionTimeout{6000};
  // A message of another call may be of a later one than that in which its sender differs. So the
  // ranks are asked, and the failure is reported if none has answered by then.
  static constexpr std::chrono::milliseconds kComparisonTimeout{3000};
  // A broken connection may mean that the peer has left. Its leave notice arrives on another path,
  // so an operation waits that long for it before its failure is reported.
  static constexpr std::chrono::milliseconds kLeaveNoticeTimeout{3000};

  // `network` may be null when no rank is on another host. The owner outlives the engine.
  [[nodiscard]] static Result<std::unique_ptr<Engine>> create(const EngineOptions& options,
                                                              std::unique_ptr<ShmTransport> shm,
                                                              std::unique_ptr<Transport> network,
                                                              EngineOwner& owner);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Puts the operation at the end of its channel. `background`: it moves also while nobody waits.
  // `next`: what its second part is made from. `entry`, of calls with device memory: it starts when
  // that has passed.
  [[nodiscard]] Result<std::shared_ptr<Operation>> submit(
      Call call,
      std::shared_ptr<const Schedule> schedule,
      bool background,
      std::shared_ptr<const PartToCome> next = {},
      std::optional<device::Event> entry = {});
  // A send or receive; they queue behind nothing but what PointToPoint says.
  [[nodiscard]] Result<std::shared_ptr<Operation>> submit(Transfer transfer, bool background);
  // Drives until the operation has ended, or until the deadline (nothing is cancelled then).
  // nullopt: not ended.
  [[nodiscard]] std::optional<Status> wait(Operation& operation, Deadline deadline);
  // Drives until all that the device has to do for the operation was started, and makes the stream
  // wait for that. Its error, if it has failed. Without device memory the same as wait(). nullopt:
  // not all was started by the deadline.
  [[nodiscard]] std::optional<Status> join(Operation& operation,
                                           device::StreamHandle stream,
                                           Deadline deadline);
  [[nodiscard]] bool has_device_memory(const Operation& operation);
  // While it lives, the thread that made it counts as waiting for the operation: it waits in
  // several calls with a limit each.
  class Hold {
   public:
    Hold(Engine& engine, std::shared_ptr<Operation> operation);
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    const CallingThreads::Waiting waiting_;
    Engine& engine_;
    const std::shared_ptr<Operation> operation_;
  };
  // Why everything has ended; ok while it has not. Any thread.
  [[nodiscard]] Status status();
  // Who has left, the first of them; ok while nobody has. Any thread.
  [[nodiscard]] Status first_left();
  // Whether it has ended; moves what can be moved when no other thread does.
  [[nodiscard]] bool test(Operation& operation);
  // Ends everything, now and later, with this error. The first call decides. Any thread.
  void fail(const Status& why);
  // The same for an error of this rank outside of any operation, once all ranks have been told of
  // it. Returns what has ended everything, which may be another rank's error.
  [[nodiscard]] Status fail_everywhere(const RunError& error);
  // Ends the operations, now and later, that cannot complete without a rank that has left. Any
  // thread.
  void peer_left(PeerLeaveNotice leave_notice);
  // Nobody passes leave notices on any more, nor says which ranks are gone. Any thread.
  void no_more_leave_notices();
  // Not ok: a peer waits in a call, and this rank has made another one in its place. Any thread.
  [[nodiscard]] Status compare_call(const MadeCall& peer);
  // When nothing more will be submitted: how far this rank goes.
  [[nodiscard]] EngineProgress progress();
  // Nothing more will be submitted: waits for all operations to end, at most until their deadlines,
  // and for the last bytes to reach the peers' hosts. Whoever has an operation may still ask for
  // its outcome.
  void close();
  [[nodiscard]] std::vector<ChannelState> states();
  [[nodiscard]] uint64_t memory_bytes();
  [[nodiscard]] const TraceBuffer& trace() const { return trace_; }
  // Runs f(shm transport, network transport or null) while no thread moves anything: for making
  // links.
  template <typename Function>
  [[nodiscard]] auto exclusively(Function&& function) {
    const Lock lock(mutex_);
    return function(*shm_, network_.get());
  }

 private:
  Engine(const EngineOptions& options,
         std::unique_ptr<ShmTransport> shm,
         std::unique_ptr<Transport> network,
         EngineOwner& owner);
  using Lock = std::unique_lock<std::mutex>;
  using Queue = std::deque<std::shared_ptr<Operation>>;

  // A thread that wants the lock: a driver that finds work in every turn would keep it for long.
  class Caller {
   public:
    explicit Caller(std::atomic<int>& callers) : callers_(callers) { ++callers_; }
    ~Caller() { --callers_; }
    Caller(const Caller&) = delete;
    Caller& operator=(const Caller&) = delete;

   private:
    std::atomic<int>& callers_;
  };

  // One pass over all active operations. true: something moved or ended.
  [[nodiscard]] bool turn(Lock& lock);
  [[nodiscard]] bool step_front(Queue& queue, std::optional<RunError>& error);
  [[nodiscard]] std::optional<RunError> start_run(Operation& operation);
  [[nodiscard]] Status take_scratch(Operation& operation);
  // False while what the caller's stream had before it is not done.
  [[nodiscard]] Result<bool> entered(Operation& operation) const;
  [[nodiscard]] bool any_not_entered() const;
  // Whether a stream may wait for it: all that the device has to do was started.
  [[nodiscard]] static bool is_enqueued(const Operation& operation);
  [[nodiscard]] std::optional<RunError> go_on(Operation& operation);
  void end(Operation& operation, const Status& status);
  void fail_locally(Lock& lock, const RunError& error);
  [[nodiscard]] bool explained_by_leave_notice(Lock& lock, const RunError& error);
  void await_comparison(Lock& lock, const RunError& error);
  void end_all();
  // true: some operation needed a rank that has left.
  bool end_departed();
  [[nodiscard]] PointToPoint::Options message_options();
  [[nodiscard]] Result<Link*> message_link(GlobalRank peer, bool mine);
  [[nodiscard]] std::vector<GlobalRank> message_callers() const;
  [[nodiscard]] bool step_messages(bool moved, std::optional<RunError>& error);
  void end_messages();
  void end_message(const Transfer& transfer, const Status& status);
  void end_all_messages();
  [[nodiscard]] bool end_departed_messages();
  [[nodiscard]] std::optional<RunError> late_message() const;
  // This rank leaves. true: some ended that nobody else needs.
  [[nodiscard]] bool end_messages_in_vain();
  void count_completed(const Operation& operation);
  void drive(Lock& lock, const std::function<bool()>& enough, Deadline deadline);
  // The same for the end of the operation, or what is enough of it.
  void drive_for(Lock& lock,
                 Operation& operation,
                 const std::function<bool()>& enough,
                 Deadline deadline);
  void note_call() const;
  [[nodiscard]] static uint32_t first_held(const Queue& queue);
  [[nodiscard]] bool message_held() const;
  void let_callers_in(Lock& lock) const;
  // What a driver does when nothing moves: spin, offer the core to others, sleep.
  struct Idleness {
    int64_t since_ns = 0;
    int yields = 0;
  };
  void idle(Lock& lock, Deadline deadline, Idleness& idleness);
  [[nodiscard]] RunError late_operation() const;
  [[nodiscard]] bool latency_bound() const;
  void sleep(Lock& lock, Deadline deadline);
  void wait_for_descriptors(std::chrono::nanoseconds most) const;
  // Until a descriptor is ready.
  void sleep_on_descriptors(Lock& lock, const WaitHint& hint, Deadline until);
  // With the lock let go of.
  void ask_about(Lock& lock, const std::vector<MadeCall>& calls) const;
  // True: somebody was asked. *next: when to look again.
  [[nodiscard]] bool ask_about_long_waits(Lock& lock, Deadline* next);
  [[nodiscard]] RunWait merged_wait(Deadline* earliest) const;
  // The driver leaves, or an operation has ended. Most often nobody waits: that costs nothing.
  void wake_waiters();
  [[nodiscard]] bool any_active() const;
  [[nodiscard]] bool any_background() const;
  void ensure_progress_thread();
  void progress_loop();

  const EngineOptions options_;
  const std::unique_ptr<ShmTransport> shm_;
  const std::unique_ptr<Transport> network_;
  EngineOwner& owner_;
  Fd epoll_;
  TraceBuffer trace_;

  std::atomic<int> callers_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;  // driver left, operation ended, new work, failure
  bool driving_ = false;
  int waiters_ = 0;        // threads that wait while another one drives
  bool closing_ = false;   // this rank leaves
  bool stopping_ = false;  // the progress thread ends
  bool reported_ = false;
  std::optional<Status> broken_;
  // Key: the channel.
  std::map<uint32_t, Queue> lanes_;
  struct Counters {
    uint32_t entered = 0;
    uint32_t completed = 0;
    std::optional<Collective> last{};  // entered
  };
  std::array<Counters, kChannelCount> counters_;
  uint32_t labelled_ = 0;  // entered, with a label
  CallHistory calls_;
  PointToPoint messages_;
  std::map<uint64_t, std::shared_ptr<Operation>> message_operations_;  // by Transfer::order
  LeaveNotices leave_notices_;
  bool leave_notices_new_ = false;
  bool leave_notices_over_ = false;
  std::thread progress_;
};

}  // namespace ho
