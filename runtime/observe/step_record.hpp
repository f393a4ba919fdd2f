// The figures of one rank for a step, as numbers and as text. Pure.
#pragma once

#include <cstdint>
#include <string>

namespace paro::observe {

// Times in seconds.
struct StepRecord {
  double unix_time = 0;  // when the step ended
  uint32_t rank = 0;
  std::string strategy;
  uint64_t step = 0;
  uint32_t micro_batches = 0;
  uint64_t outcome_step = 0;  // that the next two are of: with states on a device the one before
  bool applied = true;
  double norm = 0;
  double loss_scale = 1;
  double learning_rate = 0;

  // Of the step: what is none of the others is the framework's own, outside hooks.
  double step_s = 0;
  double compute_s = 0;  // in units, between hooks
  double exposed_s = 0;  // blocked for other ranks
  double update_s = 0;
  double hooks_s = 0;
  double collectives_s = 0;  // one after the other, as if nothing overlapped

  uint64_t intra_bytes = 0;  // payload sent by this rank
  uint64_t inter_bytes = 0;
  uint64_t states_bytes = 0;  // held now
  uint64_t peak_bytes = 0;
  uint64_t predicted_bytes = 0;
  uint64_t library_bytes = 0;
  bool drift_checked = false;
};

// Share of the collectives' time during which no computation waited; 1 where there were none.
[[nodiscard]] double overlap_ratio(const StepRecord& record);

// Since the log began.
struct StepTotals {
  uint64_t steps = 0;
  uint64_t micro_batches = 0;
  uint64_t skipped = 0;
  uint64_t drift_checks = 0;
  double compute_s = 0;
  double exposed_s = 0;
  double update_s = 0;
  double hooks_s = 0;
  double step_s = 0;
  uint64_t intra_bytes = 0;
  uint64_t inter_bytes = 0;

  void add(const StepRecord& record);
};

// One line, with its end. Numbers that JSON does not have (a norm that is not finite) are null.
[[nodiscard]] std::string json_line(const StepRecord& record);
// The text format of Prometheus: what the node exporter's textfile collector reads.
[[nodiscard]] std::string prometheus_text(const StepRecord& last, const StepTotals& totals);

}  // namespace paro::observe
