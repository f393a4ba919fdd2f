// The input of a planner: a model, a cluster and a step, as numbers. Pure.
//
// Nothing is detected or guessed. Activation memory, computation time and link rates depend on the
// program and on the machines; the caller has measured them, or tries what they might be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "cost/links.hpp"
#include "cost/memory.hpp"
#include "planner/effects.hpp"
#include "planner/waiting.hpp"

namespace paro {

inline constexpr uint32_t kMaxLayers = 1024;
inline constexpr auto kMaxRanks = static_cast<uint32_t>(ho::cost::kMaxRanks);
inline constexpr double kMaxParameters = 1e15;
inline constexpr double kMaxBytes = 1e18;  // and bytes per second
inline constexpr double kMaxSeconds = 1e9;
inline constexpr double kMaxCallSeconds = ho::cost::kMaxCallSeconds;
inline constexpr uint32_t kMaxMicroBatches = 1'000'000;  // and sequences of a rank
inline constexpr double kMinNics = 1e-3;

// Bytes that a unit's collectives carry, padding included, where its owner knows them; else as
// many as its parameters have.
struct UnitMessages {
  std::optional<double> gathered;  // by each gather of a micro-batch
  std::optional<double> reduced;   // gradients, of a micro-batch or of the step
  std::optional<double> updated;   // parameters, after the optimizer
  // Of the two, between groups.
  std::optional<double> reduced_between;
  std::optional<double> updated_between;
  bool stays_gathered = false;  // from forward to backward: one gather, not two
};

// What a unit computes with.
struct UnitSize {
  double parameters = 0;
  double trainable = 0;
  double work = 0;  // the parameters that would compute for as long, on average
  UnitMessages messages = {};
};

// A step that keeps less of its forward passes, and computes that anew.
struct Recomputed {
  std::string_view name;        // "selective", "full"
  double activation_bytes = 0;  // as in the request
  double activations_of_sequence = 0;
  double compute_s = 0;  // without what is waited for
  double forward_share = 0;
  std::vector<DimensionTraffic> traffic = {};  // of other dimensions, for a sequence
  bool at_reported_rate = false;  // the seconds are of kernels that are as fast as the step's
};

struct PlannerRequest {
  ModelSize model;
  uint32_t layers = 1;  // of equal size; each is gathered and reduced as one piece
  // Units after them that share the parameters of one more unit before them (model.shared are those
  // of all). 0: there is no such unit.
  uint32_t sharing_units = 0;
  BytesPerParameter bytes;
  WorldShape world;
  Links links;
  double memory_bytes = 0;      // that a rank has; 0: not known, and everything fits
  double activation_bytes = 0;  // that a rank needs
  uint32_t micro_batches = 1;   // of a step
  double compute_s = 0;         // of a step, all micro-batches, forward and backward; no update
  // Of it, what a rank waits for that other dimensions of parallelism send: communication, which
  // nothing hides; and how much longer on links half as good.
  double waiting_s = 0;
  double half_links_more_s = 0;
  double update_s = 0;  // the optimizer's step of one rank over all that is trained
  // Of the computation, the forward pass: less than half where all is trained, half where next to
  // nothing is.
  double forward_share = 1.0 / 3;
  // false: all is done one after the other, as where collectives take the processors that compute.
  bool overlap = true;
  Effects effects;
  uint32_t prefetch = 1;  // layers gathered ahead of use, at most all, where parameters are split
  // Gradients of neighbouring layers that have at most so many together are reduced together; 0:
  // no layer's are.
  uint64_t bucket_bytes = 0;

  // What planner/job.hpp knows of a job by names, or its owner of its units. Units that differ, in
  // the order of the forward pass, in place of `layers` equal ones: where units share parameters
  // the first has what the last `sharing_units` compute with.
  std::vector<UnitSize> units;
  double routed_share = 0;     // of the model's parameters, routed experts,
  uint32_t expert_ranks = 1;   // which so many ranks share beside the data-parallel ones
  uint32_t context_ranks = 1;  // that work on the same sequences, and hold the same routed experts
  uint32_t tensor_ranks = 1;   // of each of which the same is going on beside it
  double reserve_bytes = 0;    // of memory, that no plan may count on
  // Of a rank in a step; each strategy has micro-batches as large as its memory is for, in place of
  // `micro_batches` and `activation_bytes`. 0: these hold.
  uint32_t sequences = 0;
  double activations_of_sequence = 0;
  uint32_t micro_batch = 0;            // sequences that `activation_bytes` are of; 0: not known
  OtherDimensions others;              // what they send, where `waiting_s` is of it
  std::vector<Recomputed> recomputed;  // what else the step might do
  bool all_recomputed = false;         // there is no more to keep less of
  std::vector<std::string> assumed;    // what was not given: "sequences of 2048 tokens: give .."
};

// Layers, a unit that others share, and those.
[[nodiscard]] uint32_t unit_count(const PlannerRequest& request);

// Ok, or which number cannot be, and what it may be.
[[nodiscard]] ho::Status check(const PlannerRequest& request);

}  // namespace paro
