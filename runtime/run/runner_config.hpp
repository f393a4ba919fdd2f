// What a runner is made from. Values; the same on all ranks, but for the budget and the watch.
#pragma once

#include <horing.h>

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "collectives/domains.hpp"
#include "optim/loss_scale.hpp"
#include "optim/optimizer.hpp"
#include "run/step_cursor.hpp"
#include "step/buckets.hpp"

namespace paro {

// Elements of a unit's trained array that are updated otherwise than the others.
struct ParameterGroup {
  uint32_t unit = 0;
  Range range;
  double rate_factor = 1;   // of the learning rate
  double weight_decay = 0;  // instead of the rule's
};

// What a framework's own optimizer gets: pieces of this rank's shard, unit by unit, without the
// padding.
struct ShardUpdate {
  uint32_t unit = 0;
  uint64_t first_element = 0;  // place in the unit's trained buffer
  uint64_t step = 0;           // from 1: steps applied since its state was zeros, with this one
  double learning_rate = 0;
  std::span<float> master;
  std::span<const float> gradient;  // averaged, unscaled, clipped
  double weight_decay = 0;          // of the piece's group, 0 in none; the rate is with its factor
  std::span<float* const> states;   // as RunnerConfig::optimizer_states, each as many as masters
};
// An error breaks the runner: some of the masters have changed then, and it cannot rejoin().
using ShardOptimizer = std::function<ho::Status(const ShardUpdate&)>;

// When an action was carried out: computations between their hooks, collectives until the runner
// saw that they had ended.
struct ActionSpan {
  StepAction step_action;
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
};

struct RunnerConfig {
  Strategy strategy;
  Scope frozen = Scope::kReplicated;
  std::vector<UnitShape> units;
  uint32_t micro_batches = 1;
  uint32_t prefetch = 1;
  // Gradients of neighbouring units that have at most so many together are reduced together; 0: no
  // unit's are.
  uint64_t bucket_bytes = kDefaultBucketBytes;
  uint64_t alignment = 16;                          // elements
  ho::DType parameter_dtype = ho::DType::kFloat32;  // or kBfloat16, kFloat16
  ho::DType gradient_dtype = ho::DType::kFloat32;   // that the framework writes
  // They are sent and summed in fp32, whatever they are written in.
  bool fp32_gradients = false;
  // Sums over micro-batches of 16-bit gradients stay 16-bit: 2 bytes per element less, and small
  // gradients are lost in large sums.
  bool narrow_sums = false;
  Rule rule = AdamW{};
  ShardOptimizer optimizer;  // replaces the rule where set
  // What it keeps beside each master: names of arrays, zeros at first.
  std::vector<std::string> optimizer_states;
  std::vector<ParameterGroup> groups;  // none overlap
  bool unchecked_loads = false;        // what load() gets is not compared between the ranks
  LossScaleSettings loss_scale;
  double max_norm = 0;  // 0: no clipping
  ho_algorithm algorithm = HO_ALGORITHM_HO_RING;
  uint64_t timeout_ms = 0;                       // 0: the communicator's
  uint64_t budget_bytes = 0;                     // 0: none
  uint32_t drift_interval = 0;                   // steps between drift checks; 0: none
  std::function<void(const ActionSpan&)> watch;  // of this rank alone; in the order of their ends
  // Of this rank, where the states' memory is a device's, with a stream for each track of the step
  // plan; on all ranks or none.
  std::optional<OnDevice> on_device;
};

// Ok, or the first setting that no runner can have.
[[nodiscard]] ho::Status check(const RunnerConfig& config);

// What gradients are sent in, and are in once they are summed.
[[nodiscard]] ho::DType sent_dtype(const RunnerConfig& config);
// What gradients are summed in over micro-batches.
[[nodiscard]] ho::DType sum_dtype(const RunnerConfig& config);

[[nodiscard]] double learning_rate(const RunnerConfig& config);

// Each unit's groups, ascending.
using GroupsByUnit = std::vector<std::vector<ParameterGroup>>;
[[nodiscard]] ho::Result<GroupsByUnit> groups_by_unit(const RunnerConfig& config);

// "unit 3 (head)"
[[nodiscard]] std::string unit_name(const RunnerConfig& config, uint64_t unit);

// For a unit that has no parameters of its own: why `what` cannot be called for it.
[[nodiscard]] ho::Status shares_another(const RunnerConfig& config,
                                        const char* what,
                                        uint32_t unit);

}  // namespace paro
