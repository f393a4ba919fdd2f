// Writes the figures of steps, for people and for monitoring: a line of JSON per step, and a file
// of metrics that is replaced after every step.
#pragma once

#include <string>

#include "base/status.hpp"
#include "observe/step_record.hpp"
#include "os/fd.hpp"

namespace paro::observe {

// %r is the rank; a path without it is rank 0's alone. Empty: none.
struct StepLogPaths {
  std::string lines;
  std::string metrics;
  [[nodiscard]] bool none() const { return lines.empty() && metrics.empty(); }
};

class StepLog {
 public:
  // Lines are appended to what is there. An error where a file cannot be written: better before the
  // training than never.
  [[nodiscard]] static ho::Result<StepLog> open(const StepLogPaths& paths, uint32_t rank);

  // Never ends a training: what cannot be written is one warning in the log.
  void write(const StepRecord& record);
  // Whether this rank writes anything.
  [[nodiscard]] bool writes() const { return !lines_path_.empty() || !metrics_path_.empty(); }

 private:
  StepLog() = default;
  void warn(const std::string& what);

  std::string lines_path_;
  std::string metrics_path_;
  ho::Fd lines_;
  StepTotals totals_;
  bool warned_ = false;
  bool half_line_ = false;  // perhaps, after what could not be written
};

}  // namespace paro::observe
