#include "core/tuner/levels.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/env.hpp"
#include "cost/text/levels_file.hpp"

namespace ho::plugin {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kMaxMbps = 4e9;

uint32_t mbps_of(double bytes_per_s) {
  return static_cast<uint32_t>(std::clamp(bytes_per_s * 8 / 1e6 + 0.5, 1.0, kMaxMbps));
}

uint32_t ns_of(double seconds) {
  return static_cast<uint32_t>(std::min(seconds * 1e9 + 0.5, 4e9));
}

// Bytes/s over the boundary of each unit that the level joins, of long messages.
double unit_rate(const cost::Level& level, double units) {
  const auto& shares = level.share_of_bytes.points();
  const double share = shares.empty() ? 1 : shares.back().y;
  return level.nics * level.rate * share * level.share_of_units.at(units) / level.oversubscription;
}

}  // namespace

Result<std::optional<cost::Cluster>> levels_from_environment() {
  const std::string path = env::text(env::kLevelsFile);
  if (path.empty()) {
    return std::optional<cost::Cluster>();
  }
  HORING_ASSIGN(cost::LevelsFile file, cost::read_levels_file(env::kLevelsFile.name, path));
  return std::optional(std::move(file.levels));
}

Result<CommonInputs> on_levels(const cost::Cluster& levels, CommonInputs inputs) {
  uint64_t below = levels.front().size;  // ranks in each unit that the level joins
  size_t network = 1;                    // the first level between nodes
  for (; network < levels.size() && (below < inputs.most_local_ranks || levels[network].size == 1);
       ++network) {
    below *= levels[network].size;
  }
  const uint64_t ranks = cost::rank_count(levels);
  if (network == levels.size() || inputs.rank_count > ranks || inputs.node_count > ranks / below) {
    return invalid(fmt::format("{} levels of {} ranks hold no {} nodes of {} ranks",
                               levels.size(),
                               ranks,
                               inputs.node_count,
                               inputs.most_local_ranks));
  }
  double of_gpu = kInfinite;
  double of_node = kInfinite;
  uint64_t joined = 1;  // ranks in each unit that the level at hand joins
  for (size_t at = 0; at < levels.size(); ++at) {
    const bool between = at >= network;
    const double nodes_below = static_cast<double>(joined) / static_cast<double>(below);
    if (!between) {
      of_gpu = std::min(
          of_gpu, unit_rate(levels[at], inputs.most_local_ranks) / static_cast<double>(joined));
    } else if (inputs.node_count > nodes_below && levels[at].size > 1) {
      of_node = std::min(of_node, unit_rate(levels[at], inputs.node_count / nodes_below));
    }
    joined *= levels[at].size;
  }
  inputs.nic_count = static_cast<uint32_t>(std::max(1.0, levels[network].nics));
  inputs.nic_mbps = mbps_of(of_node / inputs.nic_count);
  inputs.rail_mbps = 0;
  inputs.intra_mbps = std::isfinite(of_gpu) ? mbps_of(of_gpu) : 0;
  inputs.hop_ns = ns_of(levels[network].latency_s);
  inputs.intra_hop_ns = ns_of(levels[network - 1].latency_s);
  return inputs;
}

std::string consistency_text(const Result<std::optional<cost::Cluster>>& levels) {
  const auto line = [](std::string_view what, const std::string& value) {
    return fmt::format("{} ({})={}\n", what, env::kLevelsFile.name, value);
  };
  if (!levels.ok()) {
    return line("levels of links", "a file that cannot be used (see that rank's log)");
  }
  if (!*levels) {
    return line("levels of links", "no file");
  }
  std::string text = line("levels of links", std::to_string((*levels)->size()));
  for (const cost::ComparedField& field : cost::compared_fields(**levels)) {
    text += line(field.name + " of levels", field.value);
  }
  std::string instead;
  for (const env::Variable* variable : {&env::kTunerNics,
                                        &env::kTunerNicMbps,
                                        &env::kTunerRailMbps,
                                        &env::kTunerIntraMbps,
                                        &env::kTunerHopUs,
                                        &env::kTunerChannels}) {
    if (env::text_if_set(*variable)) {
      instead += (instead.empty() ? "" : " ") + std::string(variable->name);
    }
  }
  return text + line("settings that count instead of levels", instead);
}

}  // namespace ho::plugin
