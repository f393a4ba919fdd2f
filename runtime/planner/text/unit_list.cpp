#include "planner/text/unit_list.hpp"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/quantity.hpp"
#include "cost/text/json_object.hpp"

namespace paro {
namespace {

constexpr double kMaxNumber = 1e18;  // of parameters and of bytes

// One object of the list.
struct Entry {
  UnitSize unit;
  std::optional<double> trained;
  std::optional<double> element_bytes;
  uint32_t count = 1;
};

ho::Result<double> number_of(const std::string& what, const nlohmann::json& value) {
  const double number = value.is_number() ? value.get<double>() : -1;
  if (!(number >= 0 && number <= kMaxNumber)) {
    return ho::invalid(fmt::format("{} {}: takes a number from 0", what, ho::value_text(value)));
  }
  return number;
}

ho::Status set(Entry& entry,
               const std::string& key,
               const nlohmann::json& value,
               const std::string& what) {
  UnitMessages& messages = entry.unit.messages;
  const std::array<std::pair<const char*, std::optional<double>*>, 7> numbers{
      {{"trained", &entry.trained},
       {"element_bytes", &entry.element_bytes},
       {"gathered_bytes", &messages.gathered},
       {"reduced_bytes", &messages.reduced},
       {"updated_bytes", &messages.updated},
       {"reduced_between_bytes", &messages.reduced_between},
       {"updated_between_bytes", &messages.updated_between}}};
  for (const auto& [name, number] : numbers) {
    if (key == name) {
      HORING_ASSIGN(*number, number_of(what, value));
      return {};
    }
  }
  if (key == "parameters") {
    HORING_ASSIGN(entry.unit.parameters, ho::positive_of(what, value));
  } else if (key == "count") {
    HORING_ASSIGN(entry.count, ho::whole_of(what, value));
  } else if (key == "stays_gathered" && value.is_boolean()) {
    messages.stays_gathered = value.get<bool>();
  } else if (key == "stays_gathered") {
    return ho::invalid(fmt::format("{} {}: takes true or false", what, ho::value_text(value)));
  } else {
    return ho::invalid(fmt::format("{} is not known; takes {}", what, kUnitKeys));
  }
  return {};
}

ho::Result<Entry> entry_of(const nlohmann::json& object, const std::string& where) {
  if (!object.is_object() || !object.contains("parameters")) {
    return ho::invalid(fmt::format("{} {}: takes an object with parameters, and of {}",
                                   where,
                                   ho::value_text(object),
                                   kUnitKeys));
  }
  Entry entry;
  for (const auto& [key, value] : object.items()) {
    HORING_TRY(set(entry, key, value, where + " " + ho::value_text(nlohmann::json(key))));
  }
  UnitSize& unit = entry.unit;
  unit.trainable = entry.trained.value_or(unit.parameters);
  if (unit.trainable > unit.parameters || unit.parameters > kMaxNumber) {
    return ho::invalid(
        fmt::format("{}: {} parameters, of which {} are trained; takes no more than "
                    "there are, and at most {}",
                    where,
                    unit.parameters,
                    unit.trainable,
                    kMaxNumber));
  }
  unit.work = unit.parameters;
  return entry;
}

}  // namespace

ModelSize UnitList::size() const {
  ModelSize size;
  for (const UnitSize& unit : units) {
    size.parameters += unit.parameters;
    size.trainable += unit.trainable;
  }
  return size;
}

std::optional<BytesPerParameter> UnitList::bytes(OptimizerKind optimizer) const {
  const ModelSize all = size();
  if (element_bytes.empty() || all.trainable == 0) {
    return std::nullopt;
  }
  BytesPerParameter mean{0, 0, 0};
  for (size_t at = 0; at < units.size(); ++at) {
    const BytesPerParameter own = bytes_of(optimizer, element_bytes[at]);
    mean.parameter += own.parameter * units[at].parameters / all.parameters;
    mean.gradient += own.gradient * units[at].trainable / all.trainable;
    mean.optimizer += own.optimizer * units[at].trainable / all.trainable;
  }
  return mean;
}

ho::Result<UnitList> parse_units(std::string_view text, std::string_view name) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_array() || json.empty()) {
    return ho::invalid(fmt::format("{} {}: takes a list of objects with {}",
                                   name,
                                   ho::value_text(nlohmann::json(text)),
                                   kUnitKeys));
  }
  UnitList list;
  size_t with_bytes = 0;
  for (size_t at = 0; at < json.size(); ++at) {
    HORING_ASSIGN(const Entry entry, entry_of(json[at], fmt::format("{}: unit {}", name, at)));
    if (list.units.size() + entry.count > kMaxLayers) {
      return ho::invalid(fmt::format("{}: takes at most {} units", name, kMaxLayers));
    }
    list.units.insert(list.units.end(), entry.count, entry.unit);
    list.element_bytes.insert(
        list.element_bytes.end(), entry.count, entry.element_bytes.value_or(0));
    with_bytes += entry.element_bytes ? 1U : 0U;
  }
  if (with_bytes > 0 && with_bytes < json.size()) {
    return ho::invalid(fmt::format("{}: element_bytes of some units: takes those of all", name));
  }
  if (with_bytes == 0) {
    list.element_bytes.clear();
  }
  return list;
}

ho::Status take_units(const PlanTexts& texts, PlanOptions& options) {
  if (texts.model) {
    return ho::invalid(fmt::format("{} beside {}, which are a model: leave one of them out",
                                   texts.named("model"),
                                   texts.named("units")));
  }
  HORING_ASSIGN(UnitList list, parse_units(*texts.units, texts.named("units")));
  ModelSpec& model = options.model;
  model.text = ho::counted(list.units.size(), "unit");
  model.named = texts.named;
  model.size = list.size();
  model.layers = static_cast<uint32_t>(list.units.size());
  const OptimizerKind usual = OptimizerKind::kAdamW;
  options.bytes_of_units = !list.element_bytes.empty();
  options.request.bytes = list.bytes(usual).value_or(options.request.bytes);
  options.request.units = std::move(list.units);
  return {};
}

}  // namespace paro
