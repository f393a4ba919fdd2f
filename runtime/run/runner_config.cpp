#include "run/runner_config.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "optim/gradients.hpp"

namespace paro {

ho::Result<GroupsByUnit> groups_by_unit(const RunnerConfig& config) {
  GroupsByUnit groups(config.units.size());
  for (size_t i = 0; i < config.groups.size(); ++i) {
    const ParameterGroup& group = config.groups[i];
    const auto refused = [&](const std::string& why) {
      return ho::Status(ho::StatusCode::kInvalidArgument,
                        "parameter_groups[" + std::to_string(i) + "]: " + why);
    };
    const std::string elements = "elements " + std::to_string(group.range.begin) + " to " +
                                 std::to_string(group.range.end) + " (not included) of ";
    const bool there = group.unit < config.units.size();
    const uint64_t trained = there ? config.units[group.unit].trained : 0;
    if (!there || group.range.begin >= group.range.end || group.range.end > trained) {
      return refused(elements + "unit " + std::to_string(group.unit) + ", which has " +
                     std::to_string(trained) + " trained elements");
    }
    constexpr double kMax = 1e6;
    if (!(group.rate_factor >= 0 && group.rate_factor <= kMax) ||
        !(group.weight_decay >= 0 && group.weight_decay <= kMax)) {
      return refused(elements + unit_name(config, group.unit) + ": learning_rate_factor " +
                     std::to_string(group.rate_factor) + ", weight_decay " +
                     std::to_string(group.weight_decay) + "; both take 0 to 1e6");
    }
    groups[group.unit].push_back(group);
  }
  for (auto& of_unit : groups) {
    std::sort(of_unit.begin(), of_unit.end(), [](const auto& a, const auto& b) {
      return a.range.begin < b.range.begin;
    });
    for (size_t i = 1; i < of_unit.size(); ++i) {
      if (of_unit[i].range.begin < of_unit[i - 1].range.end) {
        return ho::Status(ho::StatusCode::kInvalidArgument,
                          "parameter_groups: two have element " +
                              std::to_string(of_unit[i].range.begin) + " of unit " +
                              std::to_string(of_unit[i].unit));
      }
    }
  }
  return groups;
}

ho::Status check(const RunnerConfig& config) {
  const auto refused = [](const std::string& what) {
    return ho::Status(ho::StatusCode::kInvalidArgument, what);
  };
  HORING_TRY(check(config.strategy));
  HORING_TRY(check(config.loss_scale));
  if (!config.optimizer) {
    HORING_TRY(check(config.rule));
  } else if (std::isnan(learning_rate(config))) {
    return refused("a learning rate that is not a number");
  }
  for (const ho::DType dtype : {config.parameter_dtype, config.gradient_dtype}) {
    if (!is_compute_type(dtype)) {
      return refused("parameters and gradients are float32, float16 or bfloat16, not " +
                     std::string(ho::to_string(dtype)));
    }
  }
  if (config.algorithm == HO_ALGORITHM_DIRECT &&
      ho::size_bytes(sent_dtype(config)) < sizeof(float)) {
    return refused(
        "the direct algorithm with gradients of 16 bits: it cannot sum them in fp32; take "
        "float32 gradients, or ho_ring");
  }
  if (config.fp32_gradients && config.narrow_sums) {
    return refused("fp32_gradients with narrow_sums: sums are in fp32 or in 16 bits; set one");
  }
  if (!(config.max_norm >= 0)) {
    return refused("max_norm " + std::to_string(config.max_norm) + ": takes 0 (none) or more");
  }
  HORING_TRY(groups_by_unit(config).status());
  if (config.on_device && config.optimizer) {
    return refused(
        "a custom optimizer with states on a device: it would get their addresses, which the host "
        "cannot use; take AdamW or SGD, or states on the host");
  }
  if (config.prefetch > config.units.size()) {
    return refused("a prefetch of " + std::to_string(config.prefetch) + " units of " +
                   std::to_string(config.units.size()) + ": takes at most all of them");
  }
  return {};
}

ho::DType sent_dtype(const RunnerConfig& config) {
  return config.fp32_gradients ? ho::DType::kFloat32 : config.gradient_dtype;
}

ho::DType sum_dtype(const RunnerConfig& config) {
  // A single micro-batch's gradients are their own sum, unless two units share parameters.
  const bool several = config.micro_batches > 1 ||
                       std::any_of(config.units.begin(),
                                   config.units.end(),
                                   [](const UnitShape& unit) { return unit.shares.has_value(); });
  return several && !config.narrow_sums ? ho::DType::kFloat32 : sent_dtype(config);
}

double learning_rate(const RunnerConfig& config) {
  return std::visit([](const auto& rule) { return rule.learning_rate; }, config.rule);
}

std::string unit_name(const RunnerConfig& config, uint64_t unit) {
  return "unit " + std::to_string(unit) + " (" + config.units[unit].name + ")";
}

ho::Status shares_another(const RunnerConfig& config, const char* what, uint32_t unit) {
  return {ho::StatusCode::kInvalidArgument,
          std::string(what) + ": " + unit_name(config, unit) + " shares the parameters of " +
              unit_name(config, home_of(config.units, unit)) +
              " and has no elements of its own: call it for that unit"};
}

}  // namespace paro
