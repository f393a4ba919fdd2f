// A collective from its submission to its end: its runs, one for each of its parts, and the memory
// that they take. It waits for the caller's stream first, and goes on with a second part where it
// has one.
//
// Knows no thread: guarded by the engine's mutex, moved by the driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "device/device.hpp"
#include "device/work/work.hpp"
#include "exec/call.hpp"
#include "exec/engine_owner.hpp"
#include "exec/leave_notices.hpp"
#include "exec/long_wait.hpp"
#include "exec/operation.hpp"
#include "exec/run.hpp"
#include "exec/trace.hpp"

namespace ho {

// What all collectives of an engine use. The objects outlive them.
struct CollectiveContext {
  BindingLimits limits;
  EngineOwner* owner = nullptr;
  device::Work* work = nullptr;  // null: there is no device memory
  TraceBuffer* trace = nullptr;  // null: no trace
  Recorder* recorder = nullptr;
};

// How a call is submitted.
struct Submission {
  Call call;
  std::shared_ptr<const Schedule> schedule;
  bool background = false;
  std::shared_ptr<const PartToCome> next{};  // null: it has no second part
  std::optional<device::Event> entry{};      // with device memory: it starts when that has passed
};

class CollectiveOperation : public Operation {
 public:
  // `made`: as the ranks compare it, of the first part.
  CollectiveOperation(const CollectiveContext& context,
                      const MadeCall& made,
                      Submission&& submission);

  // Starts it where it may start, and moves what can be moved.
  [[nodiscard]] std::optional<RunError> step(bool* moved);
  // All of its parts are over. It has not ended yet.
  [[nodiscard]] bool over() const { return started_ && !next_ && run_->finished(); }
  // Once it is over: not ok where this operation alone had to be refused.
  [[nodiscard]] const Status& outcome() const { return outcome_; }
  // Whether all that the device has to do was started.
  [[nodiscard]] bool enqueued() const {
    return on_device() && started_ && !next_ && run_->enqueued();
  }
  // Gives back its memory. Those that wait are to be woken.
  void end(const Status& status);

  [[nodiscard]] const Run& run() const { return *run_; }
  [[nodiscard]] const MadeCall& made() const { return made_; }
  [[nodiscard]] OperationPosition position() const {
    return {made_.channel, run_->call().sequence};
  }
  [[nodiscard]] bool awaits_entry() const { return entry_.has_value(); }
  // Whether the other ranks are to be asked about it now. *next: when to look again, at the latest.
  [[nodiscard]] bool question_due(Deadline now, Deadline* next);
  // For the recorder: nothing of it can move now.
  void note_wait();
  void add_wait_ns(int64_t ns) { run_->add_wait_ns(ns); }
  [[nodiscard]] uint64_t memory_bytes() const;

 private:
  // Where it may start.
  [[nodiscard]] Status start();
  [[nodiscard]] Status take_scratch();
  // False while what the caller's stream had before it is not done.
  [[nodiscard]] Result<bool> entered();
  [[nodiscard]] std::optional<RunError> go_on();
  void note_progress(const OperationWait& wait);
  [[nodiscard]] std::unique_ptr<Run> make_run(Call&& call,
                                              std::shared_ptr<const Schedule> schedule) const;
  [[nodiscard]] RunError named(const Status& status) const;

  const CollectiveContext& context_;
  const MadeCall made_;
  std::unique_ptr<Run> run_;
  std::unique_ptr<std::byte[]> scratch_;
  // Instead, where a device adds.
  std::optional<device::PinnedMemory> pinned_scratch_;
  std::optional<device::DeviceMemory> device_scratch_;
  std::optional<device::Event> entry_;
  std::shared_ptr<const PartToCome> next_;
  bool started_ = false;
  uint32_t turns_ = 0;  // in which it moved
  OpReport earlier_;    // of the part before
  Status outcome_;
  LongWait long_wait_;
};

}  // namespace ho
