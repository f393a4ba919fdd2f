#include "cli/paro/job/cluster_facts.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/quantity.hpp"
#include "base/text_file.hpp"
#include "cli/subcommands/statistics.hpp"

namespace paro::tool {
namespace {

constexpr std::string_view kKeys = "nodes, ranks_per_node, memory, intra, inter, nics";
// Links are as good as equal above this share of the fastest.
constexpr double kEqualShare = 0.7;
constexpr size_t kMaxFileBytes = size_t{1} << 20U;

// A value as a message repeats it: not all of a long one, and on one line.
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

// An object whose keys differ. Of equal keys the library would keep the last one.
ho::Result<nlohmann::json> parse_object(std::string_view text, std::string_view name) {
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
    return ho::invalid(fmt::format("{}: has a number that is too large; takes {}", name, kKeys));
  }
  if (!json.is_object()) {
    return ho::invalid(fmt::format("{}: takes one JSON object with {}", name, kKeys));
  }
  if (twice) {
    return ho::invalid(
        fmt::format("{}: {} is given twice; write it once", name, to_string(*twice)));
  }
  return json;
}

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

void note_rates(std::string_view where,
                const RateSpan& rates,
                std::string_view which,
                std::vector<std::string>& notes) {
  if (rates.slowest <= 0) {
    return;
  }
  std::string note = fmt::format("measured {}: {}/s to {}/s, of which {} counts",
                                 where,
                                 ho::bytes_text(rates.slowest),
                                 ho::bytes_text(rates.fastest),
                                 which);
  if (rates.slowest < kEqualShare * rates.fastest) {
    note += "; they are unequal, horing doctor shows which";
  }
  notes.push_back(std::move(note));
}

std::string sizes_text(const std::vector<uint32_t>& sizes) {
  std::string text;
  for (const uint32_t size : sizes) {
    text += (text.empty() ? "" : "+") + std::to_string(size);
  }
  return text;
}

}  // namespace

ho::Result<ClusterFacts> parse_cluster(std::string_view text, std::string_view name) {
  HORING_ASSIGN(const nlohmann::json json, parse_object(text, name));
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

RateSpan span_of(std::vector<double> rates) {
  if (rates.empty()) {
    return {};
  }
  std::sort(rates.begin(), rates.end());
  return {rates.front(), ho::percentile(rates, 0.5), rates.back()};
}

ho::Result<ClusterFacts> facts_of(const MeasuredJob& job, std::vector<std::string>& notes) {
  const auto& sizes = job.group_sizes;
  for (const uint32_t size : sizes) {
    if (size != sizes.front()) {
      return ho::Status(ho::StatusCode::kUnsupported,
                        fmt::format("this job's groups have {} ranks, and the planner's formulas "
                                    "take groups of one size; start it with as many ranks on "
                                    "every node, or describe such a cluster with --nodes and "
                                    "--ranks-per-node",
                                    sizes_text(sizes)));
    }
  }
  ClusterFacts facts;
  facts.nodes = static_cast<uint32_t>(sizes.size());
  facts.ranks_per_node = sizes.front();
  if ((*facts.ranks_per_node > 1 && job.intra.slowest <= 0) ||
      (*facts.nodes > 1 && job.inter.slowest <= 0)) {
    return ho::Status(ho::StatusCode::kConnection,
                      "a link of this job carried nothing while it was measured; horing doctor "
                      "shows which");
  }
  if (*facts.ranks_per_node > 1) {
    facts.intra_bytes_per_s = job.intra.median;
  }
  if (*facts.nodes > 1) {
    facts.inter_bytes_per_s = job.inter.slowest;
    facts.nics = job.rails;
  }
  if (*facts.nodes == 1 && *facts.ranks_per_node == 1) {
    notes.emplace_back(
        "this is a job of one rank, with no links to measure; start it on every rank of a job, as "
        "horing run -n 4x4 -- paro plan --measure");
  }
  note_rates("inside nodes",
             job.intra,
             fmt::format("the median, {}/s,", ho::bytes_text(job.intra.median)),
             notes);
  note_rates(fmt::format("between nodes, on each rail (of {})", job.rails),
             job.inter,
             "the slowest",
             notes);
  return facts;
}

}  // namespace paro::tool
