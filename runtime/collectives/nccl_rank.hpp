// This rank's part in NCCL: its library and device, its communicators, and what ends them all.
//
// Ids and agreements go over libhoring's communicators, and so does every failure. Who finds one
// (a call that fails, an asynchronous error, a deadline) aborts the job's communicator of
// libhoring, whose first cause all ranks get; then every rank aborts its communicators of NCCL, so
// that no stream is held. A thread looks for failures: NCCL tells none by itself.
//
// NCCL wants one thread at a time for each communicator: who calls takes its turn (in_turn()). No
// lock is held in a call of NCCL or of the driver, which may block while the device's queues are
// full, so that the watching thread always sees a deadline; it asks the driver by way of another
// thread (nccl_looker.hpp). To abort or destroy a communicator waits for the device: who does it
// takes its handle out first. What has failed is known at once (cause_), and has ended once all
// aborts are over (aborted_): its buffers are NCCL's until then. An abort that has not returned
// after the timeout counts as over too, and the log says so: nobody waits for ever, the destructor
// neither.
#pragma once

#include <horing.h>

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/dtype.hpp"
#include "base/status.hpp"
#include "collectives/nccl_ends.hpp"
#include "collectives/nccl_looker.hpp"
#include "device/device.hpp"
#include "nccl/nccl.hpp"
#include "os/clock.hpp"

namespace paro {

class NcclCollectives;

// A collective that was begun and not joined.
struct NcclOperation {
  // kFailed: it is or will be aborted.
  enum class State : uint8_t { kFree, kUnderWay, kOver, kFailed };
  std::shared_ptr<const ho::device::Event> end;  // shared with who asks the driver
  State state = State::kFree;
  const char* call = "";  // "ncclAllGather"
  uint64_t number = 0;    // on its communicator, from 1
  size_t count = 0;
  ho::DType dtype{};
  uint64_t timeout_ms = 0;
  ho::Clock::time_point begun{};
  ho::Clock::time_point ended{};  // when it was first seen to be over
  ho::Deadline deadline{};
};

// One of NCCL's communicators. All but the name is guarded by the rank's lock.
struct NcclCommunicator {
  std::string name;                       // for errors: "the gathers of the world"
  ho::nccl::CommHandle handle = nullptr;  // null: it has ended, or is being ended
  const char* in_call = nullptr;          // whose turn it is: what it calls
  ho::Deadline call_until{};
  uint64_t begun = 0;
  std::deque<NcclOperation> operations;  // stay where they are
};

class NcclRank : public std::enable_shared_from_this<NcclRank> {
 public:
  // Collective over `world`. `parent` is what `world` was split from, and every set of over() will
  // be: a failure ends it. Both are borrowed, and outlive the rank. `timeout_ms`: of collectives
  // that name none, and of making and ending a communicator.
  // Errors: kMismatch, the same on all ranks, for versions or devices that differ.
  [[nodiscard]] static ho::Result<std::shared_ptr<NcclRank>> make(
      const ho::nccl::Nccl& nccl,
      std::shared_ptr<const ho::device::Device> device,
      ho_comm* parent,
      ho_comm* world,
      uint64_t timeout_ms);
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;
  ~NcclRank();

  // Collective over `set`, whose ranks are NCCL's in the same order: a communicator of NCCL's own,
  // one for each set and each sequence of collectives that must not wait for another.
  [[nodiscard]] ho::Result<std::unique_ptr<NcclCollectives>> over(ho_comm* set, std::string name);
  // Ok, or the first cause. Never blocks; any thread.
  [[nodiscard]] ho::Status status();
  // For hosts and kernels: not 0 where there is a cause, from before the first abort. A stream that
  // an abort has let go finds it so.
  [[nodiscard]] const uint64_t* ended() const {
    return reinterpret_cast<const uint64_t*>(ended_.bytes().data());
  }

 private:
  friend class NcclCollectives;
  using Lock = std::unique_lock<std::mutex>;

  NcclRank(const ho::nccl::Nccl& nccl,
           std::shared_ptr<const ho::device::Device> device,
           ho_comm* parent,
           ho_comm* world,
           uint64_t timeout_ms);
  [[nodiscard]] ho::Result<ho::nccl::UniqueId> agree_on_id(ho_comm* set, const std::string& name);
  [[nodiscard]] ho::Status make_communicator(ho_comm* set,
                                             const ho::nccl::UniqueId& id,
                                             NcclCommunicator& comm);
  [[nodiscard]] ho::Status check_made(ho_comm* set,
                                      const NcclCommunicator& comm,
                                      ho::nccl::CommHandle handle) const;
  [[nodiscard]] ho::Status compare_ranks();
  // use(handle), without the lock, which this thread does not hold. Waits until no other thread
  // uses the communicator. The cause, where something has failed before. A use that does not return
  // is a failure after its deadline.
  template <typename Use>
  [[nodiscard]] ho::Status in_turn(NcclCommunicator& comm,
                                   const char* call,
                                   ho::Deadline deadline,
                                   const Use& use);
  // In a turn, until NCCL has done what a call has left in progress, or the deadline. An error is
  // not known to the other ranks yet, unless it is the cause.
  [[nodiscard]] ho::Status await(const NcclCommunicator& comm,
                                 ho::nccl::CommHandle handle,
                                 const char* call,
                                 ho::nccl::ResultCode result,
                                 ho::Deadline deadline);
  // Waits for what is under way on all ranks, and gives it back. Afterwards it is not watched. All
  // that are ended with nothing in between have one deadline.
  void end(NcclCommunicator& comm);
  void end_in_order(Lock& lock, NcclCommunicator& comm, ho::Status ended);
  void abort_and_log(const std::vector<NcclEnd>& ends, const NcclEndTime& time);
  // This rank's error, to all ranks. The job's first cause, which may be another one.
  [[nodiscard]] ho::Status fail(const ho::Status& own);
  void end_all(const ho::Status& cause);
  void wait_for_aborts(Lock& lock);
  // Whether it is over. Lets the lock go while it asks the driver.
  void settle(Lock& lock, const NcclCommunicator& comm, NcclOperation& operation);
  // `operation`: null, if it is not the one that was asked about any more.
  void note(const std::string& name, const ho::Result<bool>& has_passed, NcclOperation* operation);
  // All that are under way, as far as the driver answers. Lets the lock go.
  void settle_all(Lock& lock);
  void watch();
  [[nodiscard]] ho::Status look();
  [[nodiscard]] ho::Status look_at(Lock& lock, NcclCommunicator& comm);
  [[nodiscard]] ho::Status ask_nccl(Lock& lock, NcclCommunicator& comm);
  [[nodiscard]] bool is_known(const NcclCommunicator* comm) const;
  [[nodiscard]] ho::Status said(const NcclCommunicator& comm,
                                const char* call,
                                ho::nccl::ResultCode result) const;

  const ho::nccl::Nccl& nccl_;
  const std::shared_ptr<const ho::device::Device> device_;
  ho_comm* const parent_;
  ho_comm* const world_;
  const uint64_t timeout_ms_;
  ho::device::PinnedMemory ended_;  // one number, zero at first

  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable something_to_watch_;
  bool watching_ = false;  // the watcher knows that something is under way
  std::vector<NcclCommunicator*> communicators_;
  std::optional<ho::Deadline> ends_until_;  // of those that are ended one after the other
  std::optional<ho::Deadline> aborts_until_;
  bool failing_ = false;
  std::optional<ho::Status> found_;  // what a look at an operation has found, for the watcher
  std::optional<ho::Status> cause_;
  bool aborted_ = false;  // after the cause: all aborts are over, or given up
  bool stopping_ = false;
  NcclLooker looker_;
  std::thread watcher_;
};

template <typename Use>
ho::Status NcclRank::in_turn(NcclCommunicator& comm,
                             const char* call,
                             ho::Deadline deadline,
                             const Use& use) {
  Lock lock(mutex_);
  const bool comes = changed_.wait_until(
      lock, deadline, [&] { return cause_.has_value() || comm.in_call == nullptr; });
  if (cause_) {
    return *cause_;
  }
  if (!comes) {
    return ho::Status(ho::StatusCode::kTimeout,
                      std::string(call) + " has waited in vain for " + comm.in_call +
                          " of another thread to return")
        .with_context(comm.name);
  }
  comm.in_call = call;
  comm.call_until = deadline;
  if (!std::exchange(watching_, true)) {
    something_to_watch_.notify_all();
  }
  const ho::nccl::CommHandle handle = comm.handle;
  lock.unlock();
  ho::Status used = use(handle);
  lock.lock();
  comm.in_call = nullptr;
  changed_.notify_all();
  return used;
}

}  // namespace paro
