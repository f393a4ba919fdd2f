// One submitted operation, as those see it that wait for it. Owned jointly by the engine and them.
//
// Everything is guarded by the engine's mutex, but for report(), which nobody writes once the
// operation has ended.
#pragma once

#include <cstdint>

#include "base/status.hpp"
#include "exec/op_report.hpp"
#include "exec/recorder.hpp"

namespace ho {

class Operation {
 public:
  // background: it moves also while nobody waits. on_device: it has device memory.
  explicit Operation(bool background, bool on_device = false)
      : background_(background), on_device_(on_device) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation() = default;

  [[nodiscard]] bool ended() const { return ended_; }
  // Once it has ended.
  [[nodiscard]] const Status& status() const { return outcome_; }
  [[nodiscard]] const OpReport& report() const { return report_; }
  // Whether a stream may wait for it: all that the device has to do was started.
  [[nodiscard]] bool joinable() const { return joinable_; }
  [[nodiscard]] bool background() const { return background_; }
  [[nodiscard]] bool on_device() const { return on_device_; }

  // As it is in the engine's ring.
  [[nodiscard]] OperationRecord& record() { return record_; }

  // A thread that waits for its end without a limit of its own.
  void hold() { ++held_count_; }
  void let_go() { --held_count_; }
  [[nodiscard]] bool held() const { return held_count_ > 0; }

  // By who carries it out, and wakes those that wait.
  void make_joinable() { joinable_ = true; }
  void end(const Status& status, const OpReport& report) {
    outcome_ = status;
    report_ = report;
    ended_ = true;
  }

 private:
  const bool background_;
  const bool on_device_;
  bool joinable_ = false;
  bool ended_ = false;
  uint32_t held_count_ = 0;
  Status outcome_;
  OpReport report_;
  OperationRecord record_;
};

}  // namespace ho
