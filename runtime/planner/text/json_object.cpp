#include "planner/text/json_object.hpp"

#include <spdlog/fmt/fmt.h>

#include <optional>
#include <set>

namespace paro {

std::string to_string(const nlohmann::json& value) {
  constexpr size_t kMaxTextBytes = 64;
  if (value.is_structured()) {
    return value.is_array() ? "[..]" : "{..}";
  }
  std::string text = value.dump(-1, ' ', true);
  if (text.size() > kMaxTextBytes) {
    text = text.substr(0, kMaxTextBytes) + "..";
  }
  return text;
}

ho::Result<nlohmann::json> parse_object(std::string_view text,
                                        std::string_view name,
                                        std::string_view keys) {
  std::set<std::string> seen;
  std::optional<nlohmann::json> twice;
  const auto watch =
      [&](int depth, nlohmann::json::parse_event_t event, const nlohmann::json& parsed) {
        const bool of_object = event == nlohmann::json::parse_event_t::key && depth == 1;
        if (of_object && !seen.insert(parsed.get<std::string>()).second) {
          twice = parsed;
        }
        return true;
      };
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(text, watch);
  } catch (const nlohmann::json::parse_error& error) {
    return ho::invalid(fmt::format("{}: is not JSON at byte {}", name, error.byte));
  } catch (const nlohmann::json::exception&) {
    // A number beyond what a double holds is JSON, but none that could be kept.
    return ho::invalid(fmt::format("{}: has a number that is too large; takes {}", name, keys));
  }
  if (!json.is_object()) {
    return ho::invalid(fmt::format("{}: takes one JSON object with {}", name, keys));
  }
  if (twice) {
    return ho::invalid(
        fmt::format("{}: {} is given twice; write it once", name, to_string(*twice)));
  }
  return json;
}

}  // namespace paro
