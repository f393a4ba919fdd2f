#include "planner/text/cluster_facts.hpp"

#include <spdlog/fmt/fmt.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/quantity.hpp"
#include "base/text_file.hpp"
#include "planner/text/json_object.hpp"

namespace paro {
namespace {

constexpr std::string_view kKeys = "nodes, ranks_per_node, memory, intra, inter, nics";
constexpr size_t kMaxFileBytes = size_t{1} << 20U;

// Rates and sizes are texts with a unit; a bare number could mean anything.
ho::Result<double> quantity(const std::string& what,
                            const nlohmann::json& value,
                            ho::Result<double> (*parse)(std::string_view, std::string_view),
                            std::string_view example) {
  if (!value.is_string()) {
    return ho::invalid(
        fmt::format("{} {}: takes a text with a unit, as \"{}\"", what, to_string(value), example));
  }
  return parse(what, value.get<std::string>());
}

ho::Result<uint32_t> whole(const std::string& what, const nlohmann::json& value) {
  const bool is_whole = value.is_number_unsigned() && value.get<uint64_t>() >= 1 &&
                        value.get<uint64_t>() <= std::numeric_limits<uint32_t>::max();
  if (!is_whole) {
    return ho::invalid(
        fmt::format("{} {}: takes a whole number from 1 on", what, to_string(value)));
  }
  return value.get<uint32_t>();
}

ho::Result<double> positive(const std::string& what, const nlohmann::json& value) {
  if (!value.is_number() || !(value.get<double>() > 0)) {
    return ho::invalid(fmt::format("{} {}: takes a number above 0", what, to_string(value)));
  }
  return value.get<double>();
}

ho::Status set(ClusterFacts& facts,
               const std::string& key,
               const nlohmann::json& value,
               std::string_view name) {
  const std::string what = fmt::format("{}: \"{}\"", name, key);
  if (key == "nodes") {
    HORING_ASSIGN(facts.nodes, whole(what, value));
  } else if (key == "ranks_per_node") {
    HORING_ASSIGN(facts.ranks_per_node, whole(what, value));
  } else if (key == "memory") {
    HORING_ASSIGN(facts.memory_bytes, quantity(what, value, ho::parse_size, "80GB"));
  } else if (key == "intra") {
    HORING_ASSIGN(facts.intra_bytes_per_s, quantity(what, value, ho::parse_rate, "2000Gbit"));
  } else if (key == "inter") {
    HORING_ASSIGN(facts.inter_bytes_per_s, quantity(what, value, ho::parse_rate, "80Gbit"));
  } else if (key == "nics") {
    HORING_ASSIGN(facts.nics, positive(what, value));
  } else {
    return ho::invalid(fmt::format("{}: {} is not known; takes {}", name, to_string(key), kKeys));
  }
  return {};
}

ho::Status missing(std::string_view option, std::string_view meaning, std::string_view example) {
  return ho::invalid(
      fmt::format("{} is missing: {}, for example {} {}", option, meaning, option, example));
}

}  // namespace

ho::Result<ClusterFacts> parse_cluster(std::string_view text, std::string_view name) {
  HORING_ASSIGN(const nlohmann::json json, parse_object(text, name, kKeys));
  ClusterFacts facts;
  for (const auto& [key, value] : json.items()) {
    HORING_TRY(set(facts, key, value, name));
  }
  return facts;
}

ho::Result<ClusterFacts> read_cluster_file(const std::string& path) {
  const auto text = ho::read_text_file(path, kMaxFileBytes);
  if (!text.ok()) {
    return ho::invalid(fmt::format("--cluster {}: cannot be read ({}); takes a JSON object with {}",
                                   path,
                                   text.status().message(),
                                   kKeys));
  }
  return parse_cluster(*text, path);
}

ClusterFacts merged(const ClusterFacts& stronger, const ClusterFacts& weaker) {
  const auto either = [](const auto& a, const auto& b) { return a ? a : b; };
  return {either(stronger.nodes, weaker.nodes),
          either(stronger.ranks_per_node, weaker.ranks_per_node),
          either(stronger.memory_bytes, weaker.memory_bytes),
          either(stronger.intra_bytes_per_s, weaker.intra_bytes_per_s),
          either(stronger.inter_bytes_per_s, weaker.inter_bytes_per_s),
          either(stronger.nics, weaker.nics)};
}

ho::Status apply(const ClusterFacts& facts, PlannerRequest& request) {
  if (!facts.nodes) {
    return missing("--nodes", "how many nodes (groups of ranks) there are", "4");
  }
  if (!facts.ranks_per_node) {
    return missing("--ranks-per-node", "how many ranks each node has", "8");
  }
  if (*facts.ranks_per_node > 1 && !facts.intra_bytes_per_s) {
    return missing("--intra", "the rate of a rank's links inside its node", "2000Gbit");
  }
  if (*facts.nodes > 1 && !facts.inter_bytes_per_s) {
    return missing("--inter", "the rate of a NIC between nodes", "80Gbit");
  }
  if (facts.memory_bytes && *facts.memory_bytes == 0) {
    return ho::invalid(
        "a memory of 0: takes the bytes of a rank; leave it out where it is not known");
  }
  request.world = {*facts.nodes, *facts.ranks_per_node};
  request.links.intra_bytes_per_s = facts.intra_bytes_per_s.value_or(0);
  request.links.inter_bytes_per_s = facts.inter_bytes_per_s.value_or(0);
  request.links.nics_per_group = facts.nics.value_or(1);
  request.memory_bytes = facts.memory_bytes.value_or(0);
  return {};
}

}  // namespace paro
