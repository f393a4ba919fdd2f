#include "observe/step_log.hpp"

#include <utility>

#include "base/log.hpp"
#include "os/written_file.hpp"

namespace paro::observe {
namespace {

std::string path_for(std::string path, uint32_t rank) {
  const size_t position = path.find("%r");
  if (position == std::string::npos) {
    return rank == 0 ? path : "";
  }
  return path.replace(position, 2, std::to_string(rank));
}

}  // namespace

ho::Result<StepLog> StepLog::open(const StepLogPaths& paths, uint32_t rank) {
  StepLog log;
  log.lines_path_ = path_for(paths.lines, rank);
  log.metrics_path_ = path_for(paths.metrics, rank);
  if (!log.lines_path_.empty()) {
    auto opened = ho::open_log_file(log.lines_path_);
    if (!opened.ok()) {
      return opened.status().with_context("PARO_STEP_LOG");
    }
    log.lines_ = *std::move(opened);
  }
  if (!log.metrics_path_.empty()) {
    const ho::Status status = ho::replace_file(log.metrics_path_, "");
    if (!status.ok()) {
      return status.with_context("PARO_METRICS_FILE");
    }
  }
  return log;
}

void StepLog::warn(const std::string& what) {
  if (!std::exchange(warned_, true)) {
    ho::log_warn("{}; the training goes on, and this is not logged again", what);
  }
}

void StepLog::write(const StepRecord& record) {
  totals_.add(record);
  if (!lines_path_.empty()) {
    const std::string line = (half_line_ ? "\n" : "") + json_line(record);
    const ho::Status status = ho::write_text(lines_.get(), line, lines_path_);
    half_line_ = !status.ok();
    if (half_line_) {
      warn("a step's line could not be written: " + status.message());
    }
  }
  if (!metrics_path_.empty()) {
    if (const ho::Status status = ho::replace_file(metrics_path_, prometheus_text(record, totals_));
        !status.ok()) {
      warn(status.message());
    }
  }
}

}  // namespace paro::observe
