#include "observe/step_log.hpp"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/log.hpp"

namespace paro::observe {
namespace {

std::string path_for(std::string path, uint32_t rank) {
  const size_t place = path.find("%r");
  if (place == std::string::npos) {
    return rank == 0 ? path : "";
  }
  return path.replace(place, 2, std::to_string(rank));
}

// Node exporter reads *.prom: not this one.
std::string unfinished(const std::string& path) {
  return path + ".unfinished";
}

}  // namespace

ho::Result<StepLog> StepLog::open(const StepLogPaths& paths, uint32_t rank) {
  StepLog log;
  log.lines_path_ = path_for(paths.lines, rank);
  log.metrics_path_ = path_for(paths.metrics, rank);
  if (!log.lines_path_.empty()) {
    errno = 0;
    log.lines_.open(log.lines_path_, std::ios::app);
    if (!log.lines_) {
      return ho::system_error("writing steps to " + log.lines_path_ + " (PARO_STEP_LOG)", errno);
    }
  }
  if (!log.metrics_path_.empty()) {
    const ho::Status status = log.write_metrics("");
    if (!status.ok()) {
      return status.with_context("PARO_METRICS_FILE");
    }
  }
  return log;
}

ho::Status StepLog::write_metrics(const std::string& text) const {
  const std::string path = unfinished(metrics_path_);
  errno = 0;
  std::ofstream file(path, std::ios::trunc);
  file << text;
  file.close();
  if (!file) {
    return ho::system_error("writing " + path, errno);
  }
  std::error_code error;
  std::filesystem::rename(path, metrics_path_, error);
  return error ? ho::Status(ho::StatusCode::kSystem,
                            "replacing " + metrics_path_ + ": " + error.message())
               : ho::Status();
}

void StepLog::warn(const std::string& what) {
  if (!std::exchange(warned_, true)) {
    ho::log_warn("{}; the training goes on, and this is not logged again", what);
  }
}

void StepLog::write(const StepRecord& record) {
  totals_.add(record);
  if (!lines_path_.empty()) {
    lines_ << (half_line_ ? "\n" : "") << json_line(record) << std::flush;
    half_line_ = !lines_;
    if (half_line_) {
      lines_.clear();
      warn("a step's line could not be written to " + lines_path_);
    }
  }
  if (!metrics_path_.empty()) {
    if (const ho::Status status = write_metrics(prometheus_text(record, totals_)); !status.ok()) {
      warn(status.message());
    }
  }
}

}  // namespace paro::observe
