#include "checkpoint/load.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "checkpoint/by_name.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/part_file.hpp"
#include "optim/gradients.hpp"

namespace paro::checkpoint {
namespace {

constexpr const char* kByName =
    "; to load what has the same names, give the tensors of paro_load_options";

ho::Status differs(const Reader& reader, const std::string& what) {
  return ho::invalid(reader.folder().string() + ": " + what);
}

std::string to_string(const UnitShape& unit) {
  return escaped(unit.name) + " with " + std::to_string(unit.trained) + " trained and " +
         std::to_string(unit.frozen) + " frozen elements";
}

// The checkpoint, and by which tensors it is read: both must be the same on all ranks.
std::array<uint64_t, 2> source_of(const Reader& reader, const std::vector<NamedTensor>& tensors) {
  const std::array<uint64_t, 2> checkpoint = reader.identity().words;
  if (tensors.empty()) {
    return checkpoint;
  }
  std::string all = std::to_string(checkpoint[0]) + " " + std::to_string(checkpoint[1]);
  for (const NamedTensor& tensor : tensors) {
    all += "\n" + std::to_string(tensor.name.size()) + " " + tensor.name;
    for (const uint64_t number :
         {uint64_t{tensor.unit}, uint64_t{tensor.frozen}, tensor.first_element, tensor.count()}) {
      all += " " + std::to_string(number);
    }
  }
  return checksum_of(all.data(), all.size()).words;
}

ho::Status check_units(const Reader& reader, const std::vector<UnitShape>& units) {
  const std::vector<UnitShape>& saved = reader.manifest().units;
  if (saved.size() != units.size()) {
    return differs(reader,
                   "a checkpoint of " + std::to_string(saved.size()) +
                       " units, where this model has " + std::to_string(units.size()) + kByName);
  }
  for (size_t u = 0; u < units.size(); ++u) {
    if (saved[u].name != units[u].name || saved[u].trained != units[u].trained ||
        saved[u].frozen != units[u].frozen) {
      return differs(reader,
                     "unit " + std::to_string(u) + " is " + to_string(saved[u]) +
                         ", where this model has " + to_string(units[u]) + kByName);
    }
  }
  return {};
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + escaped(name);
  }
  return text;
}

ho::Result<PartValues> read_part(const Reader& reader,
                                 uint32_t unit,
                                 const std::string& state,
                                 std::vector<Range> ranges) {
  PartValues values{std::move(ranges), reader.dtype_of(state), {}};
  const uint64_t element = ho::size_bytes(values.dtype);
  values.bytes.resize(values.count() * element);
  std::span<std::byte> left(values.bytes);
  for (const Range& range : values.ranges) {
    HORING_TRY(reader.read(unit, state, range, left.first(range.count() * element)));
    left = left.subspan(range.count() * element);
  }
  return values;
}

// By way of fp32, which holds the values of all types that it may be.
ho::Result<PartValues> converted(PartValues values, ho::DType dtype) {
  if (values.dtype == dtype) {
    return values;
  }
  const uint64_t count = values.count();
  std::vector<float> wide(count);
  unscale(values.dtype, values.bytes.data(), 1, wide);
  std::vector<std::byte> bytes(count * ho::size_bytes(dtype));
  round_to(dtype, wide, bytes.data());
  std::vector<float> again(count);
  unscale(dtype, bytes.data(), 1, again);
  for (uint64_t i = 0; i < count; ++i) {
    if (std::isfinite(wide[i]) && !std::isfinite(again[i])) {
      return ho::invalid("a frozen parameter, " + std::to_string(wide[i]) + ", does not fit " +
                         std::string(to_string(dtype)));
    }
  }
  return PartValues{std::move(values.ranges), dtype, std::move(bytes)};
}

ho::Result<PartValues> read_named(const ByName& by_name,
                                  uint32_t unit,
                                  const std::string& state,
                                  std::vector<Range> ranges) {
  HORING_ASSIGN(const std::vector<float> numbers, by_name.read(unit, state, ranges));
  const auto* const bytes = reinterpret_cast<const std::byte*>(numbers.data());
  return PartValues{
      std::move(ranges), ho::DType::kFloat32, {bytes, bytes + numbers.size() * sizeof(float)}};
}

// Arrays are found by their names, so their order does not matter.
bool same_names(std::vector<std::string> some, std::vector<std::string> others) {
  std::sort(some.begin(), some.end());
  std::sort(others.begin(), others.end());
  return some == others;
}

PartValues zeros(const PartValues& like) {
  return {like.ranges, like.dtype, std::vector<std::byte>(like.bytes.size())};
}

}  // namespace

std::vector<std::string> state_names(const RunnerConfig& config) {
  std::vector<std::string> names{"master"};
  if (config.optimizer) {
    names.insert(names.end(), config.optimizer_states.begin(), config.optimizer_states.end());
    return names;
  }
  if (std::holds_alternative<AdamW>(config.rule)) {
    names.insert(names.end(), {"exp_avg", "exp_avg_sq"});
  } else if (state_count(config.rule) > 0) {
    names.emplace_back("momentum_buffer");
  }
  return names;
}

Manifest manifest_of(const RunnerConfig& config) {
  Manifest manifest;
  manifest.strategy = letters(config.strategy);
  manifest.optimizer = config.optimizer ? "custom" : std::string(to_string(config.rule));
  manifest.states = state_names(config);
  manifest.frozen_dtype = config.parameter_dtype;
  manifest.units = config.units;
  return manifest;
}

ho::Result<SaveRequest> request_of(StepRunner& runner, Path folder, SaveFrom source) {
  // A file is written from the host's memory.
  const bool copies = source == SaveFrom::kCopy || runner.config().on_device.has_value();
  SaveRequest request;
  request.folder = std::move(folder);
  request.manifest = manifest_of(runner.config());
  HORING_ASSIGN(
      request.copies,
      copies ? runner.between_steps().snapshot() : runner.between_steps().snapshot_without_units());
  request.parts = copies ? parts_of(request.copies) : runner.between_steps().parts();
  request.manifest.step = request.copies.applied_steps;
  request.manifest.called_steps = request.copies.called_steps;
  request.manifest.optimizer_steps = request.copies.optimizer_steps;
  request.manifest.loss_scale = request.copies.loss_scale;
  return request;
}

ho::Result<Snapshot> load(const Reader& reader,
                          const StepRunner& runner,
                          const LoadOptions& options) {
  const RunnerConfig& config = runner.config();
  std::optional<ByName> by_name;
  if (options.tensors.empty()) {
    HORING_TRY(check_units(reader, config.units));
  } else {
    HORING_ASSIGN(by_name, ByName::make(reader, options.tensors, config.units));
  }
  const auto part_of = [&](uint32_t unit, const std::string& state, std::vector<Range> ranges) {
    return by_name ? read_named(*by_name, unit, state, std::move(ranges))
                   : read_part(reader, unit, state, std::move(ranges));
  };
  const std::vector<std::string> states = state_names(config);
  if (!options.reset_optimizer && !same_names(states, reader.manifest().states)) {
    return differs(reader,
                   "it has states " + joined(reader.manifest().states) + " of " +
                       escaped(reader.manifest().optimizer) +
                       ", where this job's optimizer keeps " + joined(states) +
                       "; use that optimizer, or load with reset_optimizer");
  }
  const bool own_states = !options.reset_optimizer;
  const Manifest& saved = reader.manifest();
  Snapshot snapshot{saved.step,
                    saved.called_steps,
                    own_states ? saved.optimizer_steps : 0,
                    saved.loss_scale,
                    source_of(reader, options.tensors),
                    {}};
  for (uint32_t u = 0; u < config.units.size(); ++u) {
    const UnitLayout& layout = runner.shards().layouts[u];
    UnitSnapshot unit;
    for (size_t i = 0; i < states.size(); ++i) {
      if (i > 0 && !own_states) {
        unit.states.push_back(zeros(unit.states.front()));
        continue;
      }
      HORING_ASSIGN(PartValues values,
                    part_of(u, states[i], snapshot_ranges(layout.trained, runner.self())));
      unit.states.push_back(std::move(values));
    }
    HORING_ASSIGN(PartValues frozen,
                  part_of(u, kFrozen, snapshot_ranges(layout.frozen, runner.self())));
    HORING_ASSIGN(unit.frozen, converted(std::move(frozen), config.parameter_dtype));
    snapshot.units.push_back(std::move(unit));
  }
  return snapshot;
}

}  // namespace paro::checkpoint
