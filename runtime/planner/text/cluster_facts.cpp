#include "planner/text/cluster_facts.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/quantity.hpp"
#include "base/text_file.hpp"
#include "cost/text/json_object.hpp"
#include "cost/text/levels_file.hpp"

namespace paro {
namespace {

constexpr std::string_view kKeys =
    "nodes, ranks_per_node, memory, intra, inter, nics, intra_call, inter_call, world_call, "
    "slowdown, or levels";

struct FileQuantity {
  std::string_view key;
  std::optional<double> ClusterFacts::*fact;
  ho::Result<double> (*parse)(std::string_view, std::string_view);
  const char* example;
  double most;
};
constexpr std::array kQuantities{
    FileQuantity{"memory", &ClusterFacts::memory_bytes, ho::parse_size, "80GB", kMaxBytes},
    FileQuantity{"intra", &ClusterFacts::intra_bytes_per_s, ho::parse_rate, "2000Gbit", kMaxBytes},
    FileQuantity{"inter", &ClusterFacts::inter_bytes_per_s, ho::parse_rate, "80Gbit", kMaxBytes},
    FileQuantity{
        "intra_call", &ClusterFacts::intra_call_s, ho::parse_time, "20us", kMaxCallSeconds},
    FileQuantity{
        "inter_call", &ClusterFacts::inter_call_s, ho::parse_time, "100us", kMaxCallSeconds},
    FileQuantity{
        "world_call", &ClusterFacts::world_call_s, ho::parse_time, "100us", kMaxCallSeconds},
};

ho::Status set(ClusterFacts& facts,
               const std::string& key,
               const nlohmann::json& value,
               std::string_view name) {
  const std::string what = fmt::format("{}: \"{}\"", name, key);
  const auto* const quantity =
      std::find_if(kQuantities.begin(), kQuantities.end(), [&](const FileQuantity& each) {
        return each.key == key;
      });
  if (quantity != kQuantities.end()) {
    HORING_ASSIGN(const double number,
                  ho::quantity_of(what, value, quantity->parse, quantity->example));
    if (number > quantity->most) {
      return ho::invalid(
          fmt::format("{} {}: takes at most {}", what, ho::value_text(value), quantity->most));
    }
    facts.*(quantity->fact) = number;
  } else if (key == "nodes") {
    HORING_ASSIGN(facts.nodes, ho::whole_of(what, value));
  } else if (key == "ranks_per_node") {
    HORING_ASSIGN(facts.ranks_per_node, ho::whole_of(what, value));
  } else if (key == "slowdown") {
    HORING_ASSIGN(facts.slowdown, ho::share_of(what, value));
  } else if (key == "nics") {
    HORING_ASSIGN(facts.nics, ho::positive_of(what, value));
    if (*facts.nics > kMaxRanks) {
      return ho::invalid(
          fmt::format("{} {}: takes at most {}", what, ho::value_text(value), kMaxRanks));
    }
  } else {
    return ho::invalid(fmt::format(
        "{}: {} is not known; takes {}", name, ho::value_text(nlohmann::json(key)), kKeys));
  }
  return {};
}

ho::Status missing(std::string_view option, std::string_view meaning, std::string_view example) {
  return ho::invalid(
      fmt::format("{} is missing: {}, for example {} {}", option, meaning, option, example));
}

}  // namespace

ho::Result<ClusterFacts> parse_cluster(std::string_view text, std::string_view name) {
  HORING_ASSIGN(const nlohmann::json json, ho::parse_object(text, name, kKeys));
  ClusterFacts facts;
  if (json.contains("levels")) {
    HORING_ASSIGN(const ho::cost::LevelsFile file, ho::cost::levels_of(json, name));
    facts.levels = file.levels;
    facts.memory_bytes = file.memory_bytes;
    facts.slowdown = file.slowdown;
    return facts;
  }
  for (const auto& [key, value] : json.items()) {
    HORING_TRY(set(facts, key, value, name));
  }
  return facts;
}

ho::Result<ClusterFacts> read_cluster_file(const std::string& path, const ho::OptionNames& named) {
  const auto text = ho::read_text_file(path, ho::cost::kMaxLevelsFileBytes);
  if (!text.ok()) {
    return ho::invalid(fmt::format("{} {}: cannot be read ({}); takes a JSON object with {}",
                                   named("cluster"),
                                   path,
                                   text.status().message(),
                                   kKeys));
  }
  return parse_cluster(*text, path);
}

std::string cluster_text(const ClusterFacts& facts) {
  nlohmann::ordered_json json;
  const auto add = [&json](const char* key, const auto& value, auto text) {
    if (value) {
      json[key] = text(*value);
    }
  };
  const auto as_it_is = [](auto value) { return value; };
  add("nodes", facts.nodes, as_it_is);
  add("ranks_per_node", facts.ranks_per_node, as_it_is);
  add("memory", facts.memory_bytes, ho::exact_size_text);
  add("intra", facts.intra_bytes_per_s, ho::exact_rate_text);
  add("inter", facts.inter_bytes_per_s, ho::exact_rate_text);
  add("nics", facts.nics, as_it_is);
  add("intra_call", facts.intra_call_s, ho::exact_time_text);
  add("inter_call", facts.inter_call_s, ho::exact_time_text);
  add("world_call", facts.world_call_s, ho::exact_time_text);
  add("slowdown", facts.slowdown, as_it_is);
  return json.dump(2) + "\n";
}

ClusterFacts merged(const ClusterFacts& stronger, const ClusterFacts& weaker) {
  const auto either = [](const auto& a, const auto& b) { return a ? a : b; };
  return {either(stronger.nodes, weaker.nodes),
          either(stronger.ranks_per_node, weaker.ranks_per_node),
          either(stronger.memory_bytes, weaker.memory_bytes),
          either(stronger.intra_bytes_per_s, weaker.intra_bytes_per_s),
          either(stronger.inter_bytes_per_s, weaker.inter_bytes_per_s),
          either(stronger.nics, weaker.nics),
          either(stronger.intra_call_s, weaker.intra_call_s),
          either(stronger.inter_call_s, weaker.inter_call_s),
          either(stronger.world_call_s, weaker.world_call_s),
          either(stronger.slowdown, weaker.slowdown),
          stronger.levels.empty() ? weaker.levels : stronger.levels};
}

namespace {

ho::Status check_memory(const ClusterFacts& facts, const ho::OptionNames& named) {
  return facts.memory_bytes && *facts.memory_bytes == 0
             ? ho::invalid(named("memory") +
                           " 0: takes the bytes of a rank; leave it out where it is not known")
             : ho::Status();
}

// The request has these limits too, but not the options.
ho::Status check_size(const ClusterFacts& facts, const ho::OptionNames& named) {
  if (uint64_t{1} * *facts.nodes * *facts.ranks_per_node > kMaxRanks) {
    return ho::invalid(fmt::format("{} {} of {} ranks: takes at most {} ranks in all",
                                   named("nodes"),
                                   *facts.nodes,
                                   *facts.ranks_per_node,
                                   kMaxRanks));
  }
  const bool too_few = *facts.nodes > 1 && facts.nics && *facts.nics < kMinNics;
  return too_few ? ho::invalid(
                       fmt::format("{} {}: takes {} or more", named("nics"), *facts.nics, kMinNics))
                 : ho::Status();
}

// Options of the short form say nothing of levels.
ho::Status refuse_short_form(const ClusterFacts& facts, const ho::OptionNames& named) {
  const std::array<std::pair<std::string, bool>, 8> options{
      {{named("nodes"), facts.nodes.has_value()},
       {named("ranks-per-node"), facts.ranks_per_node.has_value()},
       {named("intra"), facts.intra_bytes_per_s.has_value()},
       {named("inter"), facts.inter_bytes_per_s.has_value()},
       {named("nics"), facts.nics.has_value()},
       {named("intra-call"), facts.intra_call_s.has_value()},
       {named("inter-call"), facts.inter_call_s.has_value()},
       {named("world-call"), facts.world_call_s.has_value()}}};
  for (const auto& [option, reported] : options) {
    if (reported) {
      return ho::invalid(fmt::format(
          "{} beside a cluster of levels: change the level in the file instead", option));
    }
  }
  return {};
}

ho::Status apply_levels(const ClusterFacts& facts,
                        PlannerRequest& request,
                        const ho::OptionNames& named) {
  HORING_TRY(refuse_short_form(facts, named));
  HORING_TRY(check_memory(facts, named));
  const ho::cost::Cluster& levels = facts.levels;
  Links& links = request.links;
  links.levels = levels;
  request.memory_bytes = facts.memory_bytes.value_or(0);
  const auto ranks = static_cast<uint32_t>(rank_count(levels));  // check() has a limit
  request.world = {ranks / levels.front().size, levels.front().size};
  // What the innermost two have, for what asks no further.
  const auto finite = [](double rate) { return std::isfinite(rate) ? rate : 0; };
  links.intra_bytes_per_s = finite(levels.front().rate);
  if (levels.size() > 1) {
    links.inter_bytes_per_s = finite(levels[1].rate);
    links.nics_per_group = levels[1].nics;
  }
  return {};
}

}  // namespace

ho::Status apply(const ClusterFacts& facts, PlannerRequest& request, const ho::OptionNames& named) {
  request.effects.slowdown = facts.slowdown.value_or(request.effects.slowdown);
  if (!facts.levels.empty()) {
    return apply_levels(facts, request, named);
  }
  if (!facts.nodes) {
    return missing(named("nodes"), "how many nodes (groups of ranks) there are", "4");
  }
  if (!facts.ranks_per_node) {
    return missing(named("ranks-per-node"), "how many ranks each node has", "8");
  }
  if (*facts.ranks_per_node > 1 && !facts.intra_bytes_per_s) {
    return missing(named("intra"), "the rate of a rank's links inside its node", "2000Gbit");
  }
  if (*facts.nodes > 1 && !facts.inter_bytes_per_s) {
    return missing(
        named("inter"),
        fmt::format("the rate of a NIC between nodes, or {} and its NICs", named("network")),
        "80Gbit");
  }
  HORING_TRY(check_memory(facts, named));
  HORING_TRY(check_size(facts, named));
  request.world = {*facts.nodes, *facts.ranks_per_node};
  request.links.intra_bytes_per_s = facts.intra_bytes_per_s.value_or(0);
  request.links.inter_bytes_per_s = facts.inter_bytes_per_s.value_or(0);
  request.links.nics_per_group = facts.nics.value_or(1);
  request.links.intra_call_s = facts.intra_call_s.value_or(0);
  request.links.inter_call_s = facts.inter_call_s.value_or(0);
  // It does both.
  request.links.world_call_s =
      facts.world_call_s.value_or(std::max(request.links.intra_call_s, request.links.inter_call_s));
  request.memory_bytes = facts.memory_bytes.value_or(0);
  return {};
}

}  // namespace paro
