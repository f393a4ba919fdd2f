#include "checkpoint/manifest.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "checkpoint/json.hpp"
#include "checkpoint/safetensors.hpp"

namespace paro::checkpoint {
namespace {

constexpr const char* kFormat = "paro checkpoint";
constexpr uint64_t kVersion = 1;
// Far above any real model, far below what would not fit memory.
constexpr size_t kMaxEntries = 10'000'000;
constexpr int kHexDigits = 16;
// More steps than any training has, so that numbers made of steps do not overflow.
constexpr uint64_t kMaxSteps = uint64_t{1} << 40;

std::string hex(uint64_t word) {
  std::array<char, kHexDigits + 1> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(word));
  return text.data();
}

ho::Result<uint64_t> word_from(std::string_view text) {
  uint64_t word = 0;
  for (const char digit : text) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const size_t value = kDigits.find(digit);
    if (value == std::string_view::npos) {
      return malformed("a checksum that is not hexadecimal");
    }
    word = word << 4U | value;
  }
  return word;
}

Json to_json(const NamedTensor& tensor) {
  return {{"name", tensor.name},
          {"unit", tensor.unit},
          {"part", tensor.frozen ? "frozen" : "trained"},
          {"first_element", tensor.first_element},
          {"shape", tensor.shape}};
}

ho::Result<NamedTensor> tensor_from(const Json& json, const std::string& where) {
  NamedTensor tensor;
  HORING_ASSIGN(tensor.name, text_at(json, "name", where));
  HORING_ASSIGN(const uint64_t unit, count_at(json, "unit", where));
  HORING_ASSIGN(const std::string part, text_at(json, "part", where));
  HORING_ASSIGN(tensor.first_element, count_at(json, "first_element", where));
  HORING_ASSIGN(tensor.shape, counts_at(json, "shape", where));
  if (unit > UINT32_MAX || (part != "frozen" && part != "trained")) {
    return malformed(where + ": no such unit, or no such part of it");
  }
  tensor.unit = static_cast<uint32_t>(unit);
  tensor.frozen = part == "frozen";
  return tensor;
}

ho::Result<UnitShape> unit_from(const Json& json, const std::string& where) {
  UnitShape unit;
  HORING_ASSIGN(unit.name, text_at(json, "name", where));
  HORING_ASSIGN(unit.trained, count_at(json, "trained", where));
  HORING_ASSIGN(unit.frozen, count_at(json, "frozen", where));
  constexpr uint64_t kMaxElements = uint64_t{1} << 48;
  if (unit.trained > kMaxElements || unit.frozen > kMaxElements) {
    return malformed(where + ": more elements than a unit can have");
  }
  return unit;
}

ho::Result<PartFile> file_from(const Json& json, const std::string& where) {
  PartFile file;
  HORING_ASSIGN(file.bytes, count_at(json, "bytes", where));
  HORING_ASSIGN(const std::string text, text_at(json, "header_checksum", where));
  HORING_ASSIGN(file.header, checksum_from(text));
  return file;
}

// Each entry of a list, by a function of its own.
template <typename Value, typename Parse>
ho::Result<std::vector<Value>> list_from(const Json& json, const char* name, const Parse& parse) {
  HORING_ASSIGN(const Json* const list, array_at(json, name, "the manifest"));
  if (list->size() > kMaxEntries) {
    return malformed(std::string("the manifest's \"") + name + "\" has too many entries");
  }
  std::vector<Value> values;
  for (size_t i = 0; i < list->size(); ++i) {
    HORING_ASSIGN(Value value,
                  parse((*list)[i], std::string(name) + "[" + std::to_string(i) + "]"));
    values.push_back(std::move(value));
  }
  return values;
}

ho::Status check_format(const Json& json) {
  HORING_ASSIGN(const std::string format, text_at(json, "format", "the manifest"));
  HORING_ASSIGN(const uint64_t version, count_at(json, "version", "the manifest"));
  if (format != kFormat) {
    return malformed("not a manifest of a checkpoint of ours");
  }
  if (version != kVersion) {
    return {ho::StatusCode::kUnsupported,
            "a checkpoint of version " + std::to_string(version) + "; this library reads version " +
                std::to_string(kVersion)};
  }
  return {};
}

// Of everything else in it, as it would be written.
std::string checksum_without_itself(Json json) {
  json.erase("checksum");
  const std::string text = to_string(json);
  return to_string(checksum_of(text.data(), text.size()));
}

ho::Status check_checksum(const Json& json) {
  HORING_ASSIGN(const std::string checksum, text_at(json, "checksum", "the manifest"));
  return checksum == checksum_without_itself(json)
             ? ho::Status()
             : malformed(
                   "the manifest's checksum is wrong: it is damaged, or was changed by hand; "
                   "load an earlier checkpoint");
}

ho::Status parse_steps(const Json& json, Manifest& manifest) {
  HORING_ASSIGN(manifest.step, count_at(json, "step", "the manifest"));
  HORING_ASSIGN(manifest.called_steps, count_at(json, "called_steps", "the manifest"));
  HORING_ASSIGN(manifest.optimizer_steps, count_at(json, "optimizer_steps", "the manifest"));
  const bool possible = manifest.step <= manifest.called_steps &&
                        manifest.optimizer_steps <= manifest.step &&
                        manifest.called_steps <= kMaxSteps;
  return possible ? ho::Status() : malformed("the manifest's numbers of steps are impossible");
}

ho::Status parse_loss_scale(const Json& json, Manifest& manifest) {
  HORING_ASSIGN(const Json* const scale, member(json, "loss_scale", "the manifest"));
  HORING_ASSIGN(manifest.loss_scale.value, number_at(*scale, "value", "loss_scale"));
  HORING_ASSIGN(manifest.loss_scale.good_steps, count_at(*scale, "good_steps", "loss_scale"));
  const double value = manifest.loss_scale.value;
  return std::isfinite(value) && value > 0
             ? ho::Status()
             : malformed("loss_scale: \"value\" is no positive number");
}

ho::Status parse_states(const Json& json, Manifest& manifest) {
  HORING_ASSIGN(
      manifest.states,
      list_from<std::string>(json, "states", [](const Json& one, const std::string& where) {
        return one.is_string() ? ho::Result<std::string>(one.get<std::string>())
                               : ho::Result<std::string>(malformed(where + " is no text"));
      }));
  constexpr size_t kMaxStates = 16;
  if (manifest.states.empty() || manifest.states.front() != "master" ||
      manifest.states.size() > kMaxStates) {
    return malformed("\"states\" must begin with \"master\" and have at most 16 entries");
  }
  HORING_ASSIGN(const std::string type, text_at(json, "frozen_type", "the manifest"));
  for (const ho::DType dtype : {ho::DType::kFloat32, ho::DType::kFloat16, ho::DType::kBfloat16}) {
    if (type == tensor_type_name(dtype)) {
      manifest.frozen_dtype = dtype;
      return {};
    }
  }
  return malformed("\"frozen_type\" is none of F32, F16, BF16");
}

ho::Status check_unit(const NamedTensor& tensor, const std::vector<UnitShape>& units) {
  const std::string where = "tensor " + escaped(tensor.name);
  if (tensor.unit >= units.size()) {
    return malformed(where + ": there is no unit " + std::to_string(tensor.unit));
  }
  const UnitShape& unit = units[tensor.unit];
  const uint64_t elements = tensor.frozen ? unit.frozen : unit.trained;
  if (tensor.first_element > elements || tensor.count() > elements - tensor.first_element) {
    return malformed(where + ": it ends beyond the " + std::to_string(elements) + " " +
                     (tensor.frozen ? "frozen" : "trained") + " elements of unit " +
                     std::to_string(tensor.unit));
  }
  return {};
}

}  // namespace

uint64_t NamedTensor::count() const {
  uint64_t count = 1;
  for (const uint64_t extent : shape) {
    if (__builtin_mul_overflow(count, extent, &count)) {
      return UINT64_MAX;
    }
  }
  return count;
}

Checksum checksum_of(const void* bytes, size_t count) {
  const XXH128_hash_t hash = XXH3_128bits(bytes, count);
  return {{hash.high64, hash.low64}};
}

std::string to_string(const Checksum& checksum) {
  return hex(checksum.words[0]) + hex(checksum.words[1]);
}

ho::Result<Checksum> checksum_from(std::string_view text) {
  if (text.size() != size_t{2} * kHexDigits) {
    return malformed("a checksum of " + std::to_string(text.size()) + " digits, not 32");
  }
  Checksum checksum;
  HORING_ASSIGN(checksum.words[0], word_from(text.substr(0, kHexDigits)));
  HORING_ASSIGN(checksum.words[1], word_from(text.substr(kHexDigits)));
  return checksum;
}

std::string part_file_name(size_t rank) {
  std::string number = std::to_string(rank);
  constexpr size_t kDigits = 5;
  number.insert(0, kDigits - std::min(kDigits, number.size()), '0');
  return "rank-" + number + ".safetensors";
}

std::string to_json(const Manifest& manifest) {
  Json json;
  json["format"] = kFormat;
  json["version"] = kVersion;
  json["step"] = manifest.step;
  json["called_steps"] = manifest.called_steps;
  json["optimizer_steps"] = manifest.optimizer_steps;
  json["loss_scale"] = {{"value", manifest.loss_scale.value},
                        {"good_steps", manifest.loss_scale.good_steps}};
  json["strategy"] = manifest.strategy;
  json["optimizer"] = manifest.optimizer;
  json["states"] = manifest.states;
  json["frozen_type"] = tensor_type_name(manifest.frozen_dtype);
  json["job_state"] = manifest.job_state;
  json["units"] = Json::array();
  for (const UnitShape& unit : manifest.units) {
    json["units"].push_back(
        {{"name", unit.name}, {"trained", unit.trained}, {"frozen", unit.frozen}});
  }
  json["tensors"] = Json::array();
  for (const NamedTensor& tensor : manifest.tensors) {
    json["tensors"].push_back(to_json(tensor));
  }
  json["files"] = Json::array();
  for (const PartFile& file : manifest.files) {
    json["files"].push_back({{"bytes", file.bytes}, {"header_checksum", to_string(file.header)}});
  }
  json["checksum"] = checksum_without_itself(json);
  return to_readable_text(json);
}

ho::Status check(const Manifest& manifest) {
  const auto text = [](const std::string& value, const std::string& what) {
    return is_utf8(value) ? ho::Status() : malformed(what + " is not UTF-8");
  };
  HORING_TRY(text(manifest.job_state, "the job's state"));
  for (const UnitShape& unit : manifest.units) {
    HORING_TRY(text(unit.name, "the name of a unit"));
  }
  for (const NamedTensor& tensor : manifest.tensors) {
    HORING_TRY(text(tensor.name, "the name of a tensor"));
    HORING_TRY(check_unit(tensor, manifest.units));
  }
  return {};
}

ho::Status check_names(const Manifest& manifest) {
  const auto where_in_unit = [&](const NamedTensor& tensor) {
    return std::string(tensor.frozen ? "frozen" : "trained") + " elements from " +
           std::to_string(tensor.first_element) + " of unit " + std::to_string(tensor.unit) +
           (tensor.unit < manifest.units.size() ? " " + escaped(manifest.units[tensor.unit].name)
                                                : "");
  };
  std::map<std::string_view, const NamedTensor*> seen;
  for (const NamedTensor& tensor : manifest.tensors) {
    const auto [first, added] = seen.emplace(tensor.name, &tensor);
    if (!added) {
      return malformed("two tensors are called " + escaped(tensor.name) + ": " +
                       where_in_unit(*first->second) + ", and " + where_in_unit(tensor) +
                       "; give each a name of its own");
    }
  }
  return {};
}

ho::Result<Manifest> parse_manifest(std::string_view text) {
  HORING_ASSIGN(const Json json, parse_json(text));
  HORING_TRY(check_format(json));
  HORING_TRY(check_checksum(json));
  Manifest manifest;
  const std::string where = "the manifest";
  HORING_TRY(parse_steps(json, manifest));
  HORING_TRY(parse_loss_scale(json, manifest));
  HORING_ASSIGN(manifest.strategy, text_at(json, "strategy", where));
  HORING_ASSIGN(manifest.optimizer, text_at(json, "optimizer", where));
  HORING_TRY(parse_states(json, manifest));
  HORING_ASSIGN(manifest.job_state, text_at(json, "job_state", where));
  HORING_ASSIGN(manifest.units, list_from<UnitShape>(json, "units", unit_from));
  HORING_ASSIGN(manifest.tensors, list_from<NamedTensor>(json, "tensors", tensor_from));
  HORING_ASSIGN(manifest.files, list_from<PartFile>(json, "files", file_from));
  HORING_TRY(check(manifest));
  return manifest;
}

}  // namespace paro::checkpoint
