#include "model/config_values.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>

#include "base/escaped.hpp"

namespace paro {
namespace {

using Json = nlohmann::json;

// What a file of a model has is not nested as deep: what is takes no memory.
constexpr int kMaxDepth = 8;
constexpr size_t kMaxValueBytes = 64;

std::string to_string(const Json& value) {
  if (value.is_structured()) {
    return value.is_array() ? "[..]" : "{..}";
  }
  return ho::escaped(value.dump(-1, ' ', true, Json::error_handler_t::replace), kMaxValueBytes);
}

}  // namespace

ho::Result<Json> parse_config_object(std::string_view text, std::string_view name) {
  using Event = Json::parse_event_t;
  std::array<std::set<std::string>, kMaxDepth + 2> seen;  // keys of the object around, by depth
  std::optional<std::string> twice;
  const auto keeps = [&](int depth, Event event, const Json& value) {
    if (depth > kMaxDepth) {
      return false;
    }
    const auto level = static_cast<size_t>(depth);
    if (event == Event::object_start) {
      seen.at(level + 1).clear();  // its keys are one deeper
    } else if (event == Event::key && !seen.at(level).insert(value.get<std::string>()).second) {
      twice = value.get<std::string>();
    }
    return true;
  };
  const bool ends = text.find('\0') == std::string_view::npos;  // where the parser would end too
  Json json = ends ? Json::parse(text, keeps, false) : Json(Json::value_t::discarded);
  if (!json.is_object()) {
    return ho::invalid(fmt::format("{}: {}; takes the config.json of a Hugging Face model",
                                   name,
                                   json.is_discarded() ? "is not JSON" : "is JSON but no object"));
  }
  if (twice) {
    return ho::invalid(
        fmt::format("{}: {} is given twice; write it once", name, to_string(Json(*twice))));
  }
  return json;
}

const Json* ConfigValues::find(std::string_view key) const {
  const auto found = object_.find(std::string(key));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

double ConfigValues::bad(std::string_view key, const Json& value, std::string_view takes) {
  must(false, fmt::format("\"{}\" {}: takes {}", key, to_string(value), takes));
  return 1;
}

double ConfigValues::whole(std::string_view key, const Json& value, double most) {
  const double number = value.is_number() ? value.get<double>() : 0;
  if (!(number >= 1 && number <= most && number == std::floor(number))) {
    return bad(key, value, fmt::format("a whole number from 1 to {}", most));
  }
  return number;
}

double ConfigValues::size(std::string_view key, double most, std::string_view other) {
  for (const std::string_view name : {key, other}) {
    if (const Json* const value = find(name)) {
      return whole(name, *value, most);
    }
  }
  missing_.emplace_back(key);
  return 1;
}

double ConfigValues::size_or(std::string_view key, double otherwise, double most) {
  const Json* const value = find(key);
  return value == nullptr || *value == 0 ? otherwise : whole(key, *value, most);
}

bool ConfigValues::flag_or(std::string_view key, bool otherwise) {
  const Json* const value = find(key);
  if (value == nullptr) {
    return otherwise;
  }
  return value->is_boolean() ? value->get<bool>() : bad(key, *value, "true or false") > 1;
}

bool ConfigValues::rate_above_zero_or(std::string_view key, bool otherwise) {
  const Json* const value = find(key);
  if (value == nullptr) {
    return otherwise;
  }
  const double rate = value->is_number() ? value->get<double>() : -1;
  return rate >= 0 && rate <= 1 ? rate > 0 : bad(key, *value, "a number from 0 to 1") > 1;
}

std::string ConfigValues::text_or(std::string_view key, std::string otherwise) {
  const Json* const value = find(key);
  if (value == nullptr) {
    return otherwise;
  }
  if (!value->is_string()) {
    bad(key, *value, "a text");
    return otherwise;
  }
  return value->get<std::string>();
}

std::vector<double> ConfigValues::sizes_or_none(std::string_view key) {
  std::vector<double> sizes;
  const Json* const list = find(key);
  if (list == nullptr) {
    return sizes;
  }
  const auto is_one = [](const Json& value) { return value.is_number_unsigned(); };
  if (!list->is_array() || !std::all_of(list->begin(), list->end(), is_one)) {
    bad(key, *list, "a list of whole numbers from 0 on");
    return {};
  }
  for (const Json& value : *list) {
    sizes.push_back(value.get<double>());
  }
  return sizes;
}

std::vector<std::string> ConfigValues::texts_or_none(std::string_view key) {
  std::vector<std::string> texts;
  const Json* const list = find(key);
  if (list == nullptr) {
    return texts;
  }
  const auto is_one = [](const Json& value) { return value.is_string(); };
  if (!list->is_array() || !std::all_of(list->begin(), list->end(), is_one)) {
    bad(key, *list, "a list of texts");
    return {};
  }
  for (const Json& value : *list) {
    texts.push_back(value.get<std::string>());
  }
  return texts;
}

void ConfigValues::must(bool holds, const std::string& problem) {
  if (!holds && problem_.empty()) {
    problem_ = problem;
  }
}

ho::Status ConfigValues::status() const {
  // A size that is missing makes others look wrong.
  if (!missing_.empty()) {
    return ho::invalid(
        fmt::format("{}: missing: {}; add {} as the model's own config.json has {}, or give {} "
                    "params=N,layers=N instead",
                    name_,
                    fmt::join(missing_, ", "),
                    missing_.size() == 1 ? "it" : "them",
                    missing_.size() == 1 ? "it" : "them",
                    named_("model")));
  }
  if (!problem_.empty()) {
    return ho::invalid(fmt::format("{}: {}", name_, problem_));
  }
  return {};
}

}  // namespace paro
