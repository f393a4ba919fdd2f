// A job by names: a transformer, a GPU, an optimizer, a batch and the dimensions of parallelism, as
// the numbers that a planner's request takes. Pure.
//
// What is given as a number counts; what is not is derived, or assumed and then said so in the
// request's `assumed`.
//
//   computation = FLOPs of the model (causal attention once) x tokens / (t p c) / (peak x MFU),
//                 plus what other dimensions communicate, which waits (planner/waiting.hpp), and
//                 the pipeline's bubble
//   activations = those of model/activations.hpp for the micro-batch
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/option_names.hpp"
#include "base/status.hpp"
#include "machine/machine.hpp"
#include "model/flops.hpp"
#include "model/transformer.hpp"
#include "planner/parallelism.hpp"
#include "planner/request.hpp"
#include "planner/training.hpp"

namespace paro {

struct Job {
  ho::OptionNames named;  // in messages
  Transformer model;
  double adapters = 0;  // trained parameters beside the model's, which are frozen then
  double sequence = 0;  // 0: the model's longest
  std::optional<Gpu> gpu;
  std::optional<Precision> precision;      // bf16, or fp16 where the GPU has no other of 16 bits
  std::optional<OptimizerKind> optimizer;  // AdamW
  Recompute recompute = Recompute::kNone;
  std::optional<double> mfu;  // of the model's FLOPs while computing, above 0
  Parallelism sizes;
  uint32_t global_batch = 0;  // sequences of a step on all ranks; 0: micro-batches as reported
  std::optional<uint32_t> micro_batch;   // sequences
  std::optional<uint32_t> accumulation;  // micro-batches
  // Numbers instead of what would be derived.
  std::optional<double> compute_s;
  std::optional<double> activation_bytes;  // of a micro-batch, or of a sequence where they differ
  bool bytes_reported = false;             // the request's bytes of a parameter stay
};

struct JobSteps {
  Batch batch;  // where strategies do not choose their own
  double sequence = 0;
  double flops_of_token = 0;              // of the model, forward and backward, on all its ranks
  double peak_flops = 0;                  // of a rank's GPU, a second; 0: not known
  double bubble = 0;                      // of the time that a full pipeline computes
  std::vector<DimensionTraffic> traffic;  // of a micro-batch, beside data parallelism
};

// As given, else bf16, or fp16 where the GPU has no bf16.
[[nodiscard]] Precision precision_of(const Job& job);

// In: world and links of nodes and NICs of a node, with the protocols that they have, memory of a
// GPU, the model's parameters and trained ones. Out: all that the job has to do with; links of what
// data parallelism sees, without protocols.
[[nodiscard]] ho::Result<JobSteps> apply(const Job& job, PlannerRequest& request);

}  // namespace paro
