#include "cost/text/levels_file.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/escaped.hpp"
#include "base/hash.hpp"
#include "base/near_names.hpp"
#include "base/quantity.hpp"
#include "base/text_file.hpp"
#include "cost/networks.hpp"
#include "cost/text/json_object.hpp"

namespace ho::cost {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxNameBytes = 64;
constexpr std::string_view kKeys = "levels, memory, slowdown";
constexpr std::array kLevelKeys{"name",
                                "size",
                                "rate",
                                "latency",
                                "start",
                                "nics",
                                "oversubscription",
                                "network",
                                "share_of_bytes",
                                "share_of_units"};

Result<LinearTable> table_of(const std::string& what, const Json& value) {
  std::vector<LinearTable::Point> points;
  const auto is_point = [](const Json& each) {
    return each.is_array() && each.size() == 2 && each[0].is_number() && each[1].is_number();
  };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_point)) {
    return invalid(fmt::format(
        "{} {}: takes pairs of numbers, as [[4096, 0.5], [32768, 1]]", what, value_text(value)));
  }
  for (const Json& each : value) {
    points.push_back({each[0].get<double>(), each[1].get<double>()});
  }
  return LinearTable(std::move(points));
}

Result<std::string> text_in(const std::string& what, const Json& value) {
  if (!value.is_string() || value.get<std::string>().empty()) {
    return invalid(fmt::format("{} {}: takes a text that is not empty", what, value_text(value)));
  }
  return value.get<std::string>();
}

Status take_network(const std::string& what, const Json& value, Level& level) {
  HORING_ASSIGN(const std::string name, text_in(what, value));
  const Network* const network = find_network(name);
  if (network == nullptr) {
    std::vector<std::string_view> known;
    for (const Network& each : known_networks()) {
      known.push_back(each.name);
    }
    return invalid(fmt::format(
        "{} {}: is not known{}", what, value_text(value), near_names_text(name, known)));
  }
  level = with_defaults(level, *network);
  return {};
}

Status take(const std::string& what, std::string_view key, const Json& value, Level& level) {
  if (key == "size") {
    HORING_ASSIGN(level.size, whole_of(what, value));
  } else if (key == "rate") {
    HORING_ASSIGN(level.rate, quantity_of(what, value, parse_rate, "450GB"));
    if (std::isinf(level.rate)) {
      return invalid(fmt::format("{} {}: is beyond any link", what, value_text(value)));
    }
  } else if (key == "latency") {
    HORING_ASSIGN(level.latency_s, quantity_of(what, value, parse_time, "2us"));
  } else if (key == "start") {
    HORING_ASSIGN(level.start_s, quantity_of(what, value, parse_time, "8us"));
  } else if (key == "nics") {
    HORING_ASSIGN(level.nics, positive_of(what, value));
  } else if (key == "oversubscription") {
    HORING_ASSIGN(level.oversubscription, positive_of(what, value));
  } else if (key == "share_of_bytes") {
    HORING_ASSIGN(level.share_of_bytes, table_of(what, value));
  } else if (key == "share_of_units") {
    HORING_ASSIGN(level.share_of_units, table_of(what, value));
  }
  return {};  // name and network are taken already
}

Result<Level> level_of(const Json& json, std::string_view file, size_t at) {
  std::string where = fmt::format("{}: level {}", file, at);
  if (!json.is_object()) {
    return invalid(fmt::format(
        "{} {}: takes an object with {}", where, value_text(json), fmt::join(kLevelKeys, ", ")));
  }
  Level level;
  level.name = fmt::format("level {}", at);
  level.rate = std::numeric_limits<double>::infinity();
  if (json.contains("name")) {
    HORING_ASSIGN(const std::string name, text_in(where + ": \"name\"", json["name"]));
    level.name = escaped(name, kMaxNameBytes);
    where += fmt::format(" ({})", value_text(json["name"]));
  }
  const auto field = [&where](std::string_view key) {
    return fmt::format("{}: \"{}\"", where, key);
  };
  if (json.contains("network")) {  // before what overrides it
    HORING_TRY(take_network(field("network"), json["network"], level));
  }
  for (const char* const own : {"latency", "start", "share_of_bytes", "share_of_units"}) {
    if (json.contains(own)) {
      level.network.clear();
    }
  }
  for (const auto& [key, value] : json.items()) {
    if (std::find(kLevelKeys.begin(), kLevelKeys.end(), key) == kLevelKeys.end()) {
      return invalid(fmt::format("{}: {} is not known; takes {}",
                                 where,
                                 value_text(Json(key)),
                                 fmt::join(kLevelKeys, ", ")));
    }
    HORING_TRY(take(field(key), key, value, level));
  }
  if (!json.contains("size")) {
    return invalid(fmt::format(
        "{} is missing: how many units of the level below, or ranks, it joins", field("size")));
  }
  if (!json.contains("rate") && level.size > 1) {
    return invalid(
        fmt::format("{} is missing: of one NIC in each direction, as \"400Gbit\"", field("rate")));
  }
  return level;
}

// A rate without limit is left out of files: "none".
std::string rate_text(double rate) {
  return std::isfinite(rate) ? exact_rate_text(rate) : "none";
}

nlohmann::ordered_json table_json(const LinearTable& table) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const LinearTable::Point& point : table.points()) {
    json.push_back({point.x, point.y});
  }
  return json;
}

nlohmann::ordered_json level_json(const Level& level) {
  nlohmann::ordered_json json{{"name", level.name}, {"size", level.size}};
  if (std::isfinite(level.rate)) {
    json["rate"] = rate_text(level.rate);
  }
  json["nics"] = level.nics;
  json["oversubscription"] = level.oversubscription;
  if (!level.network.empty()) {  // it has the rest
    json["network"] = level.network;
    return json;
  }
  json["latency"] = exact_time_text(level.latency_s);
  json["start"] = exact_time_text(level.start_s);
  if (!level.share_of_bytes.points().empty()) {
    json["share_of_bytes"] = table_json(level.share_of_bytes);
  }
  if (!level.share_of_units.points().empty()) {
    json["share_of_units"] = table_json(level.share_of_units);
  }
  return json;
}

}  // namespace

Result<LevelsFile> levels_of(const Json& json, std::string_view name) {
  LevelsFile file;
  for (const auto& [key, value] : json.items()) {
    if (key == "memory") {
      HORING_ASSIGN(file.memory_bytes,
                    quantity_of(fmt::format("{}: \"memory\"", name), value, parse_size, "80GB"));
    } else if (key == "slowdown") {
      HORING_ASSIGN(file.slowdown, share_of(fmt::format("{}: \"slowdown\"", name), value));
    } else if (key != "levels") {
      return invalid(
          fmt::format("{}: {} is not known; takes {}", name, value_text(Json(key)), kKeys));
    }
  }
  const Json levels = json.value("levels", Json());
  if (!levels.is_array() || levels.empty()) {
    return invalid(
        fmt::format("{}: \"levels\" {}: takes one object or more in [..], the innermost first",
                    name,
                    value_text(levels)));
  }
  for (const Json& each : levels) {
    HORING_ASSIGN(Level level, level_of(each, name, file.levels.size()));
    file.levels.push_back(std::move(level));
  }
  if (const Status status = check(file.levels); !status.ok()) {
    return invalid(fmt::format("{}: {}", name, status.message()));
  }
  return file;
}

Result<LevelsFile> parse_levels(std::string_view text, std::string_view name) {
  HORING_ASSIGN(const Json json, parse_object(text, name, kKeys));
  return levels_of(json, name);
}

Result<LevelsFile> read_levels_file(std::string_view what, const std::string& path) {
  const auto text = read_text_file(path, kMaxLevelsFileBytes);
  if (!text.ok()) {
    return invalid(fmt::format("{} {}: cannot be read ({}); takes a JSON object with {}",
                               what,
                               path,
                               text.status().message(),
                               kKeys));
  }
  return parse_levels(*text, path);
}

std::string levels_text(const LevelsFile& file) {
  nlohmann::ordered_json json{{"levels", nlohmann::ordered_json::array()}};
  for (const Level& level : file.levels) {
    json["levels"].push_back(level_json(level));
  }
  if (file.memory_bytes) {
    json["memory"] = exact_size_text(*file.memory_bytes);
  }
  if (file.slowdown) {
    json["slowdown"] = *file.slowdown;
  }
  return json.dump(2) + "\n";
}

std::vector<ComparedField> compared_fields(const Cluster& levels) {
  std::vector<ComparedField> fields;
  const auto add = [&](std::string_view name, auto of_level) {
    std::string value;
    for (const Level& level : levels) {
      value += (value.empty() ? "" : ", ") + of_level(level);
    }
    if (value.size() > kMaxComparedBytes) {
      value = fmt::format("of digest {:016x}", Hash().add(value).value());
    }
    fields.push_back({std::string(name), std::move(value)});
  };
  const auto number = [](double value) { return fmt::format("{}", value); };
  add("sizes", [](const Level& level) { return std::to_string(level.size); });
  add("rates", [](const Level& level) { return rate_text(level.rate); });
  add("nics", [&](const Level& level) { return number(level.nics); });
  add("latencies", [](const Level& level) { return exact_time_text(level.latency_s); });
  add("starts", [](const Level& level) { return exact_time_text(level.start_s); });
  add("oversubscriptions", [&](const Level& level) { return number(level.oversubscription); });
  add("shares of bytes",
      [](const Level& level) { return table_json(level.share_of_bytes).dump(); });
  add("shares of units",
      [](const Level& level) { return table_json(level.share_of_units).dump(); });
  return fields;
}

}  // namespace ho::cost
