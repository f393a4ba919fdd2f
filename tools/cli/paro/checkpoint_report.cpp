#include "cli/paro/checkpoint_report.hpp"

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/quantity.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/safetensors.hpp"
#include "cli/subcommands/table.hpp"

namespace paro::tool {
namespace {

using checkpoint::Manifest;

struct Totals {
  uint64_t trained = 0;
  uint64_t frozen = 0;
  uint64_t bytes = 0;
};

Totals totals_of(const Manifest& manifest) {
  Totals totals;
  for (const UnitShape& unit : manifest.units) {
    totals.trained += unit.trained;
    totals.frozen += unit.frozen;
  }
  for (const checkpoint::PartFile& file : manifest.files) {
    totals.bytes += file.bytes;
  }
  return totals;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + checkpoint::escaped(name);
  }
  return text;
}

std::string shape_text(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (const uint64_t extent : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  }
  return text + "]";
}

std::string units_text(const Manifest& manifest) {
  std::vector<ho::Column> columns{
      {"unit", false, {}}, {"name", true, {}}, {"trained", false, {}}, {"frozen", false, {}}};
  for (size_t u = 0; u < manifest.units.size(); ++u) {
    const UnitShape& unit = manifest.units[u];
    ho::add_row(columns,
                {std::to_string(u),
                 checkpoint::escaped(unit.name),
                 std::to_string(unit.trained),
                 std::to_string(unit.frozen)});
  }
  return ho::aligned(columns);
}

std::string tensors_text(const Manifest& manifest) {
  std::vector<ho::Column> columns{{"tensor", true, {}}, {"shape", true, {}}, {"place", true, {}}};
  for (const checkpoint::NamedTensor& tensor : manifest.tensors) {
    ho::add_row(columns,
                {checkpoint::escaped(tensor.name),
                 shape_text(tensor.shape),
                 "unit " + std::to_string(tensor.unit) + (tensor.frozen ? ", frozen" : "") +
                     ", from " + std::to_string(tensor.first_element)});
  }
  return ho::aligned(columns);
}

}  // namespace

std::string checkpoint_text(const std::string& path, const Manifest& manifest) {
  const Totals totals = totals_of(manifest);
  std::string text = "checkpoint  " + path + "\n";
  text += "step        " + std::to_string(manifest.step) + "\n";
  text += "saved by    " + std::to_string(manifest.files.size()) + " ranks with " +
          checkpoint::escaped(manifest.strategy) + " (any other number and strategy can load it)\n";
  text += "states      " + joined(manifest.states) + " of " +
          checkpoint::escaped(manifest.optimizer) + ", fp32; frozen parameters " +
          std::string(checkpoint::tensor_type_name(manifest.frozen_dtype)) + "\n";
  text += "parameters  " + std::to_string(totals.trained) + " trained, " +
          std::to_string(totals.frozen) + " frozen\n";
  text += "loss scale  " + nlohmann::json(manifest.loss_scale.value).dump() + "\n";
  text += "files       " + std::to_string(manifest.files.size()) + ", " +
          ho::bytes_text(static_cast<double>(totals.bytes)) + " (" + std::to_string(totals.bytes) +
          " bytes)\n";
  if (!manifest.job_state.empty()) {
    text += "job state   " + std::to_string(manifest.job_state.size()) + " bytes\n";
  }
  text += "\n" + units_text(manifest);
  return manifest.tensors.empty() ? text : text + "\n" + tensors_text(manifest);
}

std::string checkpoint_json(const std::string& path, const Manifest& manifest) {
  nlohmann::json json = nlohmann::json::parse(checkpoint::to_json(manifest));
  json["path"] = path;
  return json.dump(1) + "\n";
}

}  // namespace paro::tool
