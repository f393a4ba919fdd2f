#include "bench/paro_bench/workload.hpp"

#include <algorithm>
#include <cmath>

namespace paro::bench {
namespace {

// Per rank where nothing is split; 16 bytes each, and many ranks share a machine.
constexpr double kMaxElements = 1U << 28U;
constexpr double kMaxWaitS = 60;

}  // namespace

ho::Result<Workload> workload_of(const WorkloadSpec& spec, double compute_factor) {
  const double parameters = spec.model.size.parameters * spec.scale;
  const double trained = spec.model.size.trainable * spec.scale;
  if (trained > parameters) {
    return ho::invalid("--model: " + spec.model.text +
                       " has more trained parameters than parameters");
  }
  Workload load;
  const uint32_t units = spec.units > 0 ? spec.units : std::min(spec.model.layers, kMaxUnits);
  const double per_unit = std::floor(trained / units);
  if (per_unit < 1 || parameters > kMaxElements) {
    return ho::invalid("--scale: of " + spec.model.text + " " + std::to_string(parameters) +
                       " parameters are left, of which " + std::to_string(trained) +
                       " are trained, in " + std::to_string(units) +
                       " units: at least one of each unit is trained, and at most 2^28 are there");
  }
  const double frozen_per_unit = std::floor((parameters - trained) / units);
  for (uint32_t unit = 0; unit < units; ++unit) {
    load.units.push_back({"unit" + std::to_string(unit),
                          static_cast<uint64_t>(per_unit),
                          static_cast<uint64_t>(frozen_per_unit)});
  }
  load.trained = per_unit * units;
  load.frozen = frozen_per_unit * units;
  load.time_scale = spec.scale * spec.real_bytes_per_s / spec.emulated_bytes_per_s;
  load.micro_batches = spec.accumulation;
  const double tokens = double{1} * spec.micro_batch * spec.sequence;
  load.tokens = tokens * spec.accumulation;
  const double seconds_per_operation =
      compute_factor * load.time_scale / (spec.flops * spec.utilisation) / units;
  load.forward_s = 2 * spec.model.size.parameters * tokens * seconds_per_operation;
  load.backward_s =
      2 * (spec.model.size.parameters + spec.model.size.trainable) * tokens * seconds_per_operation;
  if (!(load.backward_s <= kMaxWaitS)) {
    return ho::invalid("a unit's backward pass takes " + std::to_string(load.backward_s) +
                       " s: at most 60; take a smaller --scale or --compute-factors");
  }
  return load;
}

}  // namespace paro::bench
