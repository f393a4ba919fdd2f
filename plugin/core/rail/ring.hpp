// The ring of one rail as one member runs it: flows to both neighbours, the calls that NCCL has
// made, and a thread that moves them, so that no caller has to make progress.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "core/driver/net_driver.hpp"
#include "core/rail/call.hpp"
#include "core/rail/flow.hpp"
#include "core/rail/operands.hpp"
#include "os/event_fd.hpp"
#include "os/fd.hpp"
#include "os/private_memory.hpp"

namespace ho::plugin::rail {

// Connections of all flows. Owns them: closed with it.
class RailLinks {
 public:
  RailLinks(NetDriver& driver, std::vector<FlowLink> flows)
      : driver_(&driver), flows_(std::move(flows)) {}
  RailLinks(RailLinks&& other) noexcept
      : driver_(other.driver_), flows_(std::exchange(other.flows_, {})) {}
  RailLinks(const RailLinks&) = delete;
  RailLinks& operator=(const RailLinks&) = delete;
  RailLinks& operator=(RailLinks&&) = delete;
  ~RailLinks();

  [[nodiscard]] NetDriver& driver() const { return *driver_; }
  [[nodiscard]] const std::vector<FlowLink>& flows() const { return flows_; }
  [[nodiscard]] FlowLink& flow(size_t number) { return flows_[number]; }

 private:
  NetDriver* driver_;
  std::vector<FlowLink> flows_;
};

class RailRing {
 public:
  struct Shape {
    uint32_t members = 1;
    uint32_t self = 0;
    uint64_t wanted_piece_bytes = 0;  // a multiple of 8; 0: by the size of what moves
  };

  // Of what this member finds itself, on the ring's thread, once.
  using OnFailure = std::function<void(const Status&)>;
  // What besides the ring's own connections may have failed. Called about once a second, on the
  // ring's thread, while nothing moves; an error that stays for two calls ends the ring.
  using LookAround = std::function<Status()>;

  // `links` may have no flows where there is one member.
  [[nodiscard]] static Result<std::unique_ptr<RailRing>> start(RailLinks links,
                                                               Shape shape,
                                                               OnFailure on_failure,
                                                               LookAround look_around = {});
  RailRing(const RailRing&) = delete;
  RailRing& operator=(const RailRing&) = delete;
  ~RailRing();

  [[nodiscard]] const Shape& shape() const { return shape_; }

  // The service thread. The memory stays valid until deregister().
  [[nodiscard]] Result<std::unique_ptr<Registration>> register_memory(void* data,
                                                                      size_t byte_count,
                                                                      int32_t kind);
  void deregister(const Registration& memory);

  // The progress thread of NCCL, which also tests. Its number; nothing: try again later. An error
  // is the ring's: it has failed for good.
  [[nodiscard]] Result<std::optional<uint64_t>> enter(const RailCall& call);
  // true: complete, and forgotten.
  [[nodiscard]] Result<bool> test(uint64_t number);

  // Ends every call, now and later. Any thread.
  void fail(const Status& why);
  // Turns that the thread has taken: one that has nothing to do takes about one a second. Any
  // thread.
  [[nodiscard]] uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }

  // Ends the thread: nothing moves any more, and on_failure is not called again.
  void stop();

 private:
  RailRing(RailLinks links,
           Shape shape,
           OnFailure on_failure,
           LookAround look_around,
           EventFd wake,
           Fd epoll);
  [[nodiscard]] Status make_flows();
  [[nodiscard]] Status watch_progress();
  void run();
  [[nodiscard]] Result<bool> turn();
  [[nodiscard]] const Flow* other_flow(size_t number) const;
  [[nodiscard]] Status look_around();
  [[nodiscard]] bool do_local_work();
  void rest();
  [[nodiscard]] bool look();
  void sleep();
  [[nodiscard]] Status failure();

  Shape shape_;
  OnFailure on_failure_;
  LookAround look_around_;
  int64_t next_look_ns_ = 0;
  bool suspects_ = false;
  // Longer than the connections, which may have been receiving into it. Not of malloc, which would
  // keep it for good in the arena of whichever of NCCL's threads destroys the ring.
  PrivateMemory scratch_;
  RailLinks links_;
  EventFd wake_;
  Fd epoll_;
  bool can_sleep_ = false;  // every flow's connections have a descriptor to sleep on
  std::unique_ptr<Registration> scratch_memory_;
  std::vector<Flow> flows_;
  Calls calls_;
  uint64_t local_work_done_ = 0;  // calls
  uint32_t idle_turns_ = 0;
  std::atomic<uint64_t> turns_{0};
  std::atomic<bool> asleep_{false};
  std::atomic<bool> stop_{false};
  std::atomic<bool> failed_{false};
  // The thread touches no memory of calls any more: only then is a failure reported, since the
  // caller that gets it may free them.
  std::atomic<bool> ended_{false};
  std::mutex mutex_;
  Status why_;
  std::thread thread_;
};

}  // namespace ho::plugin::rail
