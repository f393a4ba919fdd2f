// This rank's part in NCCL: its library and device, its communicators, and what ends them all.
//
// Ids and agreements go over libhoring's communicators, and so does every failure. Who finds one
// (a call that fails, an asynchronous error, a deadline) aborts the job's communicator of
// libhoring, whose first cause all ranks get; then every rank aborts its communicators of NCCL, so
// that no stream is held. A thread looks for failures: NCCL tells none by itself.
//
// NCCL wants one thread at a time for each communicator, so a lock is held around its calls, none
// of which blocks: communicators are made so. To abort or destroy one waits for the device: who
// does it takes its handle out under the lock, and calls without. What has failed is known at once
// (cause_), and has ended once all aborts are over (aborted_): its buffers are NCCL's until then.
// An abort that has not returned after the timeout counts as over too, and the log says so: nobody
// waits for ever, the destructor neither.
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
#include <vector>

#include "base/dtype.hpp"
#include "base/status.hpp"
#include "collectives/nccl_ends.hpp"
#include "device/device.hpp"
#include "nccl/nccl.hpp"
#include "os/clock.hpp"

namespace paro {

class NcclCollectives;

// A collective that was begun and not joined.
struct NcclOperation {
  // kFailed: it is or will be aborted.
  enum class State : uint8_t { kFree, kUnderWay, kOver, kFailed };
  ho::device::Event end;
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
  [[nodiscard]] ho::Status compare_ranks();
  // Until NCCL has done what a call has left in progress, or the deadline. The lock is let go in
  // between. An error is not known to the other ranks yet, unless it is the cause.
  [[nodiscard]] ho::Status await(Lock& lock,
                                 NcclCommunicator& comm,
                                 const char* call,
                                 ho::nccl::ResultCode result,
                                 ho::Deadline deadline);
  // Waits for what is under way on all ranks, and gives it back. Afterwards it is not watched.
  void end(NcclCommunicator& comm);
  // Without the lock.
  void abort_and_log(const std::vector<NcclEnd>& ends);
  // This rank's error, to all ranks. The job's first cause, which may be another one.
  [[nodiscard]] ho::Status fail(const ho::Status& own);
  void end_all(const ho::Status& cause);
  void wait_for_aborts(Lock& lock);
  void settle(const NcclCommunicator& comm, NcclOperation& operation);
  void watch();
  [[nodiscard]] ho::Status look();
  [[nodiscard]] ho::Status look_at(NcclCommunicator& comm);
  [[nodiscard]] ho::Status said(const NcclCommunicator& comm,
                                const char* call,
                                ho::nccl::ResultCode result) const;

  const ho::nccl::Nccl& nccl_;
  const std::shared_ptr<const ho::device::Device> device_;
  ho_comm* const parent_;
  ho_comm* const world_;
  const uint64_t timeout_ms_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::condition_variable something_to_watch_;
  bool watching_ = false;  // the watcher knows that something is under way
  std::vector<NcclCommunicator*> communicators_;
  bool failing_ = false;
  std::optional<ho::Status> found_;  // what a look at an operation has found, for the watcher
  std::optional<ho::Status> cause_;
  bool aborted_ = false;  // after the cause: all aborts are over, or given up
  bool stopping_ = false;
  std::thread watcher_;
};

}  // namespace paro
