#include "capi/options.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/env.hpp"
#include "capi/arguments.hpp"
#include "layout/grouping.hpp"
#include "on_device/device_states.hpp"
#include "step/prefetch.hpp"

namespace paro::capi {
namespace {

// A plan has more actions than units, and at most this many.
constexpr size_t kMaxUnits = size_t{1} << 20U;

static_assert(PARO_REPLICATED == static_cast<int>(Scope::kReplicated));
static_assert(PARO_GROUP == static_cast<int>(Scope::kGroup));
static_assert(PARO_WORLD == static_cast<int>(Scope::kWorld));
static_assert(PARO_DEFAULT_BUCKET_BYTES == kDefaultBucketBytes);
static_assert(PARO_SCALING_NONE == static_cast<int>(Scaling::kNone));
static_assert(PARO_SCALING_STATIC == static_cast<int>(Scaling::kStatic));
static_assert(PARO_SCALING_DYNAMIC == static_cast<int>(Scaling::kDynamic));

ho::Status no_such(const char* what, int value, const char* type) {
  return ho::invalid(std::string("paro_runner_options.") + what + " is " + std::to_string(value) +
                     "; see " + type);
}

// An enumerator between 0 and `last`.
template <typename Enum, typename Input>
ho::Result<Enum> enumerator(const Input& input, int last, const char* what, const char* type) {
  const int value = number_of(input);
  if (value < 0 || value > last) {
    return no_such(what, value, type);
  }
  return static_cast<Enum>(value);
}

ho::Result<ho_algorithm> algorithm_of(const ho_algorithm& input) {
  const int value = number_of(input);
  if (value != HO_ALGORITHM_AUTO && (value < 0 || value > HO_ALGORITHM_DIRECT)) {
    return no_such("algorithm", value, "ho_algorithm");
  }
  return static_cast<ho_algorithm>(value);
}

ho::Result<ho::DType> dtype_of(const ho_dtype& input, const char* what) {
  return enumerator<ho::DType>(input, ho::kDTypeCount - 1, what, "ho_dtype");
}

// The caller's function as the runner calls it.
ShardOptimizer calling(const paro_custom_optimizer& custom) {
  return [custom](const ShardUpdate& update) -> ho::Status {
    const paro_shard shard{sizeof(paro_shard),
                           update.unit,
                           update.first_element,
                           update.master.size(),
                           update.step,
                           update.learning_rate,
                           update.master.data(),
                           update.gradient.data(),
                           update.states.data(),
                           static_cast<uint32_t>(update.states.size()),
                           0,
                           update.weight_decay};
    const int32_t answer = custom.function(&shard, custom.user);
    if (answer == 0) {
      return {};
    }
    return {ho::StatusCode::kAborted,
            "the caller's optimizer returned " + std::to_string(answer) + " for " +
                std::to_string(shard.count) + " elements from " +
                std::to_string(shard.first_element)};
  };
}

// Names of arrays as a checkpoint keeps them, beside "master" and "frozen".
ho::Status read_states(const paro_custom_optimizer& custom, RunnerConfig& config) {
  constexpr uint32_t kMaxStates = 15;
  const std::string where = "paro_runner_options.custom.states";
  if (custom.state_count > kMaxStates || (custom.states == nullptr && custom.state_count > 0)) {
    return ho::invalid(where + ": a null array of " + std::to_string(custom.state_count) +
                       " names, or more than " + std::to_string(kMaxStates));
  }
  auto& names = config.optimizer_states;
  for (uint32_t i = 0; i < custom.state_count; ++i) {
    const std::string name = custom.states[i] == nullptr ? "" : custom.states[i];
    const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    });
    if (name.empty() || !plain || name == "master" || name == "frozen" ||
        std::find(names.begin(), names.end(), name) != names.end()) {
      return ho::invalid(
          where + "[" + std::to_string(i) +
          "] takes a name of its own, of letters, digits and _, and neither master nor "
          "frozen");
    }
    names.push_back(name);
  }
  return {};
}

ho::Status read_optimizer(const paro_runner_options& options, RunnerConfig& config) {
  HORING_ASSIGN(
      const int kind,
      enumerator<int>(options.optimizer, PARO_OPTIMIZER_CUSTOM, "optimizer", "paro_optimizer"));
  if (kind == PARO_OPTIMIZER_ADAMW) {
    const paro_adamw& adamw = options.adamw;
    config.rule =
        AdamW{adamw.learning_rate, adamw.beta1, adamw.beta2, adamw.epsilon, adamw.weight_decay};
    return {};
  }
  if (kind == PARO_OPTIMIZER_SGD) {
    config.rule = Sgd{options.sgd.learning_rate, options.sgd.momentum, options.sgd.weight_decay};
    return {};
  }
  if (options.custom.function == nullptr) {
    return ho::invalid(
        "paro_runner_options.custom.function is null, where `optimizer` asks for it");
  }
  config.rule = Sgd{options.custom.learning_rate, 0, 0};
  config.optimizer = calling(options.custom);
  return read_states(options.custom, config);
}

ho::Status read_parameter_groups(const paro_runner_options& options, RunnerConfig& config) {
  constexpr uint64_t kMaxGroups = uint64_t{1} << 20U;
  if (options.parameter_group_count > kMaxGroups ||
      (options.parameter_groups == nullptr && options.parameter_group_count > 0)) {
    return ho::invalid("paro_runner_options.parameter_groups: a null array of " +
                       std::to_string(options.parameter_group_count) + " groups, or too many");
  }
  for (uint64_t i = 0; i < options.parameter_group_count; ++i) {
    const paro_parameter_group& input = options.parameter_groups[i];
    HORING_TRY(
        check_reserved(input.reserved,
                       "paro_runner_options.parameter_groups[" + std::to_string(i) + "].reserved"));
    uint64_t end = 0;
    if (__builtin_add_overflow(input.first_element, input.count, &end)) {
      end = UINT64_MAX;
    }
    config.groups.push_back(
        {input.unit, {input.first_element, end}, input.learning_rate_factor, input.weight_decay});
  }
  return {};
}

ho::Status read_loss_scale(const paro_loss_scale& input, RunnerConfig& config) {
  HORING_ASSIGN(const Scaling scaling,
                enumerator<Scaling>(
                    input.scaling, PARO_SCALING_DYNAMIC, "loss_scale.scaling", "paro_scaling"));
  config.loss_scale = {scaling,
                       input.initial,
                       input.growth,
                       input.backoff,
                       input.growth_interval,
                       input.least,
                       input.most};
  return {};
}

// "paro_unit 2 (head)"
std::string unit_text(const paro_unit* units, size_t index) {
  return "paro_unit " + std::to_string(index) + " (" +
         (units[index].name == nullptr ? "whose name is NULL" : units[index].name) + ")";
}

// The units before `index` that are called `name`. A unit without a name is called nothing, also
// where messages call it something.
std::vector<uint32_t> called(const paro_unit* units, size_t index, const std::string& name) {
  std::vector<uint32_t> found;
  for (uint32_t before = 0; before < index; ++before) {
    if (units[before].name != nullptr && units[before].name == name) {
      found.push_back(before);
    }
  }
  return found;
}

// The unit before it whose parameters a unit shares.
ho::Result<std::optional<uint32_t>> shared_by(const paro_unit* units, size_t index) {
  const paro_unit& unit = units[index];
  if (unit.shares == nullptr) {
    return std::optional<uint32_t>();
  }
  const std::string where = unit_text(units, index);
  const auto refused = [&](const std::string& why) {
    return ho::invalid(where + ".shares is \"" + unit.shares + "\": " + why);
  };
  const std::vector<uint32_t> found = called(units, index, unit.shares);
  if (found.empty()) {
    const bool unnamed =
        std::any_of(units, units + index, [](const paro_unit& one) { return one.name == nullptr; });
    return refused(std::string("takes the name of a unit before it") +
                   (unnamed ? "; a unit whose name is NULL cannot be shared, give it one" : ""));
  }
  if (found.size() > 1) {
    return refused("paro_unit " + std::to_string(found[0]) + " and paro_unit " +
                   std::to_string(found[1]) +
                   " both have this name; give a unit that is shared a name of its own");
  }
  if (units[found[0]].shares != nullptr) {
    return refused(unit_text(units, found[0]) + " shares those of \"" + units[found[0]].shares +
                   "\" itself; name the unit that has them");
  }
  if (unit.trained > 0 || unit.frozen > 0) {
    return ho::invalid(where + " shares those of " + unit_text(units, found[0]) + " and has " +
                       std::to_string(unit.trained) + " trained and " +
                       std::to_string(unit.frozen) +
                       " frozen elements of its own: set both to 0, or make two units of it");
  }
  return std::optional<uint32_t>(found[0]);
}

ho::Status read_units(const paro_unit* units, size_t unit_count, RunnerConfig& config) {
  if (unit_count == 0 || unit_count > kMaxUnits) {
    return ho::invalid("a model of " + std::to_string(unit_count) + " units; takes 1 to " +
                       std::to_string(kMaxUnits));
  }
  if (units == nullptr) {
    return ho::invalid("a null array of " + std::to_string(unit_count) + " units");
  }
  config.units.reserve(unit_count);
  for (size_t i = 0; i < unit_count; ++i) {
    const char* const name = units[i].name == nullptr ? "unnamed" : units[i].name;
    HORING_ASSIGN(const auto shares, shared_by(units, i));
    config.units.push_back({name, units[i].trained, units[i].frozen, shares});
  }
  return {};
}

ho::Result<RunnerConfig> config_of(const paro_runner_options& options) {
  RunnerConfig config;
  HORING_ASSIGN(config.strategy, strategy_of(options.strategy));
  if (number_of(options.frozen) == PARO_AS_PARAMETERS) {
    config.frozen = config.strategy.parameters;
  } else {
    HORING_ASSIGN(config.frozen,
                  enumerator<Scope>(options.frozen, PARO_WORLD, "frozen", "paro_scope"));
  }
  config.micro_batches = options.micro_batches;
  config.prefetch = options.prefetch;
  config.bucket_bytes = options.bucket_bytes;
  if (options.narrow_sums > 1) {
    return ho::invalid("narrow_sums is " + std::to_string(options.narrow_sums) + "; takes 0 or 1");
  }
  config.narrow_sums = options.narrow_sums != 0;
  if (options.fp32_gradients > 1) {
    return ho::invalid("fp32_gradients is " + std::to_string(options.fp32_gradients) +
                       "; takes 0 or 1");
  }
  config.fp32_gradients = options.fp32_gradients != 0;
  if (options.unchecked_loads > 1) {
    return ho::invalid("unchecked_loads is " + std::to_string(options.unchecked_loads) +
                       "; takes 0 or 1");
  }
  config.unchecked_loads = options.unchecked_loads != 0;
  config.drift_interval = options.drift_interval;
  config.alignment = options.alignment;
  HORING_ASSIGN(config.parameter_dtype, dtype_of(options.parameter_dtype, "parameter_dtype"));
  HORING_ASSIGN(config.gradient_dtype, dtype_of(options.gradient_dtype, "gradient_dtype"));
  HORING_ASSIGN(config.algorithm, algorithm_of(options.algorithm));
  HORING_TRY(read_optimizer(options, config));
  HORING_TRY(read_parameter_groups(options, config));
  HORING_TRY(read_loss_scale(options.loss_scale, config));
  config.max_norm = options.max_norm;
  config.timeout_ms = std::min(options.timeout_ms, uint64_t{1} << 40U);  // 35 years
  config.budget_bytes = options.budget_bytes;
  return config;
}

ho::Result<ho::GroupMap> groups_of(const ho_comm* comm, const paro_runner_options& options) {
  if (options.group_file != nullptr) {
    if (options.group_size != 0) {
      return ho::invalid("paro_runner_options has both a group_size and a group_file; set one");
    }
    return read_groups(options.group_file, static_cast<uint32_t>(ho_comm_world_size(comm)));
  }
  HORING_ASSIGN(const ho::GroupMap nodes, nodes_of(comm));
  return group_by_size(nodes, options.group_size);
}

ho::Result<observe::StepLog> log_of(const ho_comm* comm, const paro_runner_options& options) {
  const auto path = [](const char* input, const ho::env::Variable& variable) {
    return input == nullptr ? ho::env::text(variable) : std::string(input);
  };
  return observe::StepLog::open({path(options.step_log, ho::env::kStepLog),
                                 path(options.metrics_file, ho::env::kMetricsFile)},
                                static_cast<uint32_t>(ho_comm_rank(comm)));
}

ho::Result<steering::Settings> steering_of(const paro_runner_options& options) {
  if (options.auto_strategy > 1) {
    return ho::invalid("auto_strategy is " + std::to_string(options.auto_strategy) +
                       "; takes 0 or 1");
  }
  HORING_ASSIGN(const bool in_environment, ho::env::flag(ho::env::kAutoStrategy));
  const bool automatic = in_environment || options.auto_strategy == 1;
  if (automatic && options.place == PARO_PLACE_DEVICE) {
    return ho::invalid(
        "auto_strategy (or PARO_AUTO_STRATEGY) chooses by the links of libhoring, and NCCL moves "
        "states on a device by others: leave it 0, and name a strategy in strategy_file");
  }
  return steering::Settings{options.strategy_file == nullptr ? ho::env::text(ho::env::kStrategyFile)
                                                             : std::string(options.strategy_file),
                            automatic,
                            options.auto_interval};
}

// Where states live, which `config` is told.
ho::Result<std::unique_ptr<Memory>> memory_of(const ho_comm* comm,
                                              const paro_runner_options& options,
                                              RunnerConfig& config) {
  HORING_ASSIGN(const int kind,
                enumerator<int>(options.place, PARO_PLACE_DEVICE, "place", "paro_place"));
  HORING_ASSIGN(const int collectives,
                enumerator<int>(
                    options.collectives, PARO_COLLECTIVES_NCCL, "collectives", "paro_collectives"));
  if (kind == PARO_PLACE_HOST) {
    if (collectives != PARO_COLLECTIVES_HORING || options.stream != nullptr) {
      return ho::invalid(
          std::string(collectives != PARO_COLLECTIVES_HORING
                          ? "paro_runner_options.collectives is PARO_COLLECTIVES_NCCL"
                          : "paro_runner_options.stream is set") +
          " with states on the host: set place to PARO_PLACE_DEVICE, or leave it out");
    }
    return std::unique_ptr<Memory>(std::make_unique<HostMemory>());
  }
  if (collectives != PARO_COLLECTIVES_NCCL) {
    return ho::invalid(
        "paro_runner_options.place is PARO_PLACE_DEVICE, and states on a device are moved by NCCL: "
        "set collectives to PARO_COLLECTIVES_NCCL");
  }
  HORING_ASSIGN(DeviceStates on_device, states_on_device(comm, options.stream, config.timeout_ms));
  config.on_device = std::move(on_device.use);
  return std::unique_ptr<Memory>(std::move(on_device.memory));
}

}  // namespace

ho::Result<Strategy> strategy_of(const char* text) {
  return text == nullptr ? ho::Result<Strategy>(Strategy()) : parse_strategy(text);
}

ho::Result<Prepared> prepare(const ho_comm* comm,
                             const paro_runner_options* options,
                             const paro_unit* units,
                             size_t unit_count) {
  HORING_ASSIGN(
      const paro_runner_options input,
      read_options(options, paro_runner_options(PARO_RUNNER_OPTIONS_INIT), "paro_runner_options"));
  HORING_ASSIGN(RunnerConfig config, config_of(input));
  HORING_TRY(read_units(units, unit_count, config));
  if (input.prefetch == PARO_PREFETCH_AUTO) {
    config.prefetch = automatic_prefetch(config.units);
  }
  HORING_ASSIGN(ho::GroupMap groups, groups_of(comm, input));
  HORING_ASSIGN(observe::StepLog log, log_of(comm, input));
  HORING_ASSIGN(steering::Settings steering, steering_of(input));
  HORING_ASSIGN(std::unique_ptr<Memory> memory, memory_of(comm, input, config));
  return Prepared{std::move(config),
                  std::move(memory),
                  std::move(groups),
                  number_of(input.frozen) == PARO_AS_PARAMETERS,
                  std::move(log),
                  std::move(steering)};
}

}  // namespace paro::capi
