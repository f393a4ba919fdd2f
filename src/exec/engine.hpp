// Drives all operations of one communicator on one rank. It owns the parts that do so, and is what
// others see of them:
//
//   driver        which thread moves operations, and the lock of everything
//   collectives   by channel, one after another
//   messages      sends and receives
//   failures      why operations end that cannot complete
//   sleeper       how the driver sleeps
//
// Any thread may call; the public functions take the lock themselves, the others have it. Upwards
// there is only the owner (engine_owner.hpp).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "exec/calling_threads.hpp"
#include "exec/channel_state.hpp"
#include "exec/collective_queues.hpp"
#include "exec/driver.hpp"
#include "exec/engine_owner.hpp"
#include "exec/failures.hpp"
#include "exec/message_operations.hpp"
#include "exec/operation.hpp"
#include "exec/recorder.hpp"
#include "exec/sleeper.hpp"
#include "exec/trace.hpp"
#include "exec/transfer.hpp"
#include "os/clock.hpp"
#include "transport/link_service.hpp"
#include "transport/shm/shm_transport.hpp"
#include "transport/transport.hpp"

namespace ho {

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

// What this rank has taken part in, for those who may be slower.
struct EngineProgress {
  bool failed = false;
  std::array<ChannelProgress, kChannelCount> channels;
  std::vector<PairProgress> pairs;
};

class Engine final : private Driver::Driven {
 public:
  // `network` may be null when no rank is on another host. The owner outlives the engine.
  [[nodiscard]] static Result<std::unique_ptr<Engine>> create(const EngineOptions& options,
                                                              std::unique_ptr<ShmTransport> shm,
                                                              std::unique_ptr<Transport> network,
                                                              EngineOwner& owner);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Puts the operation at the end of its channel.
  [[nodiscard]] Result<std::shared_ptr<Operation>> submit(Submission submission);
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
  // Why everything has ended; ok while it has not.
  [[nodiscard]] Status status();
  // Who has left, the first of them; ok while nobody has.
  [[nodiscard]] Status first_left();
  // Whether it has ended; moves what can be moved when no other thread does.
  [[nodiscard]] bool test(Operation& operation);
  // Ends everything, now and later, with this error. The first call decides.
  void fail(const Status& why);
  // The same for an error of this rank outside of any operation, once all ranks have been told of
  // it. Returns what has ended everything, which may be another rank's error.
  [[nodiscard]] Status fail_everywhere(const RunError& error);
  // Ends the operations, now and later, that cannot complete without a rank that has left.
  void peer_left(PeerLeaveNotice leave_notice);
  // Nobody passes leave notices on any more, nor says which ranks are gone.
  void no_more_leave_notices();
  // Not ok: a peer waits in a call, and this rank has made another one in its place.
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
  // What it does, for any thread at any time, also after its end.
  [[nodiscard]] std::shared_ptr<const Recorder> recorder() const { return recorder_; }
  // Runs f(shm transport, network transport or null) while no thread moves anything: for making
  // links.
  template <typename Function>
  [[nodiscard]] auto exclusively(Function&& function) {
    const Driver::Lock lock = driver_.lock();
    return function(*shm_, network_.get());
  }

 private:
  Engine(const EngineOptions& options,
         std::unique_ptr<ShmTransport> shm,
         std::unique_ptr<Transport> network,
         std::shared_ptr<Recorder> recorder,
         EngineOwner& owner);

  bool turn(Driver::Lock& lock) override;
  void sleep(Driver::Lock& lock, Deadline deadline) override;
  // For the process' LinkService: lets the network answer where nobody drives.
  [[nodiscard]] bool serve();
  [[nodiscard]] bool latency_bound() const override;
  [[nodiscard]] bool has_background() const override;

  // What transports and device have done meanwhile, and all that moves after it.
  [[nodiscard]] bool move_all(std::optional<RunError>& error);
  // What a submitted operation needs of a driver.
  void start_moving(Driver::Lock& lock, bool background);
  // Drives for what is enough of the operation.
  void wait_for(Driver::Lock& lock,
                Operation& operation,
                const std::function<bool()>& enough,
                Deadline deadline);
  void note_call() const;
  void note_waits();
  void note_rail_use();
  [[nodiscard]] bool active() const { return messages_.active() || collectives_.active(); }
  void fail_locally(Driver::Lock& lock, const RunError& error);
  void end_all();
  // true: some operation needed a rank that has left.
  bool end_of_left();
  // Whose operations have ended, or can be joined.
  void wake_their_waiters();
  [[nodiscard]] RunError late_operation() const;

  const EngineOptions options_;
  const std::unique_ptr<ShmTransport> shm_;
  const std::unique_ptr<Transport> network_;
  TraceBuffer trace_;
  const std::shared_ptr<Recorder> recorder_;
  Driver driver_;
  std::unique_ptr<Sleeper> sleeper_;
  CollectiveQueues collectives_;
  MessageOperations messages_;
  Failures failures_;
  bool closing_ = false;  // this rank leaves
  bool closed_ = false;
  std::unique_ptr<LinkService::Member> service_;  // of a network that wants it
};

}  // namespace ho
