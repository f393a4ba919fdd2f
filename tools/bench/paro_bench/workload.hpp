// What is trained, brought to the size of an emulated cluster. Pure.
//
// A model of P parameters, P' of them trained, on links of rate B becomes one of scale P on links
// of rate b: moving any state then takes scale B / b of the time that it takes there. Computation
// is waited for, and scaled by the same factor, so that the ratio of the two is what it is on the
// cluster that stands behind. Nothing else is chosen.
//
// Floating-point operations of a rank and micro-batch of t tokens: 2 P t forward; backward 2 P t
// for the gradients of activations, which pass through frozen parameters too, and 2 P' t for those
// of trained parameters (so 4 P' t for the trained part and 2 (P - P') t for the rest). Seconds are
// these over the rate times the utilisation.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "layout/unit_layout.hpp"
#include "planner/text/model_spec.hpp"

namespace paro::bench {

struct WorkloadSpec {
  ModelSpec model;
  double scale = 1.0 / 2000;
  uint32_t units = 0;  // 0: the model's layers, at most kMaxUnits
  uint32_t micro_batch = 4;
  uint32_t sequence = 512;
  uint32_t accumulation = 10;
  double flops = 312e12;  // of a rank; A100 with bf16
  double utilisation = 0.4;
  double real_bytes_per_s = 10e9;      // B, of a NIC between nodes
  double emulated_bytes_per_s = 25e6;  // b
};
inline constexpr uint32_t kMaxUnits = 8;

struct Workload {
  std::vector<UnitShape> units;  // all equal
  double trained = 0;            // parameters in all units
  double frozen = 0;
  double time_scale = 1;  // emulated seconds of one real second
  double forward_s = 0;   // of a unit, emulated
  double backward_s = 0;
  uint32_t micro_batches = 1;
  double tokens = 0;  // of a rank and step

  // Of a rank and step.
  [[nodiscard]] double compute_s() const {
    return (forward_s + backward_s) * static_cast<double>(units.size()) * micro_batches;
  }
  [[nodiscard]] double forward_share() const { return forward_s / (forward_s + backward_s); }
};

// `compute_factor`: computation takes so many times as long as it would.
[[nodiscard]] ho::Result<Workload> workload_of(const WorkloadSpec& spec, double compute_factor);

}  // namespace paro::bench
