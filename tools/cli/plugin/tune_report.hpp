// What `horing tune` prints. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/plugin/tune_options.hpp"
#include "core/tuner/tuner.hpp"

namespace ho {

// Sizes for which the tuner decides the same. Times are those of the geometric middle.
struct TuneRow {
  uint64_t first_bytes = 0;
  uint64_t last_bytes = 0;  // included
  plugin::Choice choice = plugin::Choice::kDefault;
  plugin::Choices own;  // what NCCL chooses among where the choice is kOwn
  uint64_t timed_bytes = 0;
  plugin::Costs costs;  // infinite for what NCCL does not allow there
  std::string why;
};

struct TuneReport {
  plugin::CommonInputs inputs;
  std::vector<std::string> from_environment;  // of TuneOptions
  std::array<std::vector<TuneRow>, plugin::kTunedCollectiveCount> rows;
};

// The file is for messages too: rules are named by its path and line.
[[nodiscard]] Result<TuneReport> tune_report(const TuneOptions& options,
                                             const plugin::TuningFile& file);

[[nodiscard]] std::string to_string(const TuneReport& report);
[[nodiscard]] std::string to_json(const TuneReport& report);

}  // namespace ho
