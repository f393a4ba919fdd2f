#include "cost/text/json_object.hpp"

#include <spdlog/fmt/fmt.h>

#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "base/quantity.hpp"

namespace ho {

std::string value_text(const nlohmann::json& value) {
  constexpr size_t kMaxTextBytes = 64;
  if (value.is_structured() && !value.empty()) {
    return value.is_array() ? "[..]" : "{..}";
  }
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kMaxTextBytes) {
    text = text.substr(0, kMaxTextBytes) + "..";
  }
  return text;
}

Result<nlohmann::json> parse_object(std::string_view text,
                                    std::string_view name,
                                    std::string_view keys) {
  if (text.size() > kMaxJsonBytes) {
    return invalid(fmt::format("{}: {} bytes; takes at most {}", name, text.size(), kMaxJsonBytes));
  }
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> seen;  // of the objects around
  std::optional<nlohmann::json> twice;
  bool too_deep = false;
  const auto watch = [&](int depth, Event event, const nlohmann::json& parsed) {
    too_deep = too_deep || depth > kMaxJsonDepth;
    if (event == Event::object_start) {
      seen.emplace_back();
    } else if (event == Event::object_end) {
      seen.pop_back();
    } else if (event == Event::key && !seen.back().insert(parsed.get<std::string>()).second) {
      twice = parsed;
    }
    return true;
  };
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(text, watch);
  } catch (const nlohmann::json::parse_error& error) {
    return invalid(fmt::format("{}: is not JSON at byte {}", name, error.byte));
  } catch (const nlohmann::json::exception&) {
    // A number beyond what a double holds is JSON, but none that could be kept.
    return invalid(fmt::format("{}: has a number that is too large; takes {}", name, keys));
  }
  if (too_deep) {
    return invalid(fmt::format(
        "{}: lists or objects in one another more than {} deep; takes one JSON object with {}",
        name,
        kMaxJsonDepth,
        keys));
  }
  if (!json.is_object()) {
    return invalid(fmt::format("{}: takes one JSON object with {}", name, keys));
  }
  if (twice) {
    return invalid(fmt::format("{}: {} is given twice; write it once", name, value_text(*twice)));
  }
  return json;
}

Result<double> quantity_of(const std::string& what,
                           const nlohmann::json& value,
                           Result<double> (*parse)(std::string_view, std::string_view),
                           std::string_view example) {
  if (!value.is_string()) {
    return invalid(fmt::format(
        "{} {}: takes a text with a unit, as \"{}\"", what, value_text(value), example));
  }
  return parse(what, value.get<std::string>());
}

Result<uint32_t> whole_of(const std::string& what, const nlohmann::json& value) {
  const bool is_whole = value.is_number_unsigned() && value.get<uint64_t>() >= 1 &&
                        value.get<uint64_t>() <= std::numeric_limits<uint32_t>::max();
  if (!is_whole) {
    return invalid(fmt::format("{} {}: takes a whole number from 1 to {}",
                               what,
                               value_text(value),
                               std::numeric_limits<uint32_t>::max()));
  }
  return value.get<uint32_t>();
}

Result<double> positive_of(const std::string& what, const nlohmann::json& value) {
  if (!value.is_number() || !(value.get<double>() > 0)) {
    return invalid(fmt::format("{} {}: takes a number above 0", what, value_text(value)));
  }
  return value.get<double>();
}

Result<double> share_of(const std::string& what, const nlohmann::json& value) {
  if (!value.is_number() || !(value.get<double>() >= 0 && value.get<double>() <= 1)) {
    return invalid(fmt::format("{} {}: takes a number from 0 to 1", what, value_text(value)));
  }
  return value.get<double>();
}

namespace {

using Parse = Result<double> (*)(std::string_view, std::string_view);

std::string exact_text(
    double value, double unit, std::string_view name, std::string_view plain, Parse parse) {
  std::string text = fmt::format("{:.6g}{}", value / unit, name);
  const auto back = parse("", text);
  return back.ok() && *back == value ? text : fmt::format("{}{}", value, plain);
}

}  // namespace

std::string exact_rate_text(double bytes_per_s) {
  return exact_text(bytes_per_s, 1e9, "GB", "B", parse_rate);
}

std::string exact_size_text(double bytes) {
  return exact_text(bytes, 1e9, "GB", "B", parse_size);
}

std::string exact_time_text(double seconds) {
  return exact_text(seconds, 1e-6, "us", "s", parse_time);
}

}  // namespace ho
