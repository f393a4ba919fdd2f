#include "cli/run/cluster_model.hpp"

#include <sstream>

#include "base/env.hpp"
#include "base/names.hpp"
#include "base/quantity.hpp"

namespace ho {
namespace {

std::string dotted(uint32_t first, uint32_t second, uint32_t last) {
  return std::to_string(first) + "." + std::to_string(second) + ".0." + std::to_string(last);
}

// "rail0=127.1.0.2,rail1=127.2.0.2"
std::string emulated_rails(const Cluster& cluster, uint32_t node, uint32_t rails, int pace_fd) {
  std::string text;
  for (uint32_t rail = 0; rail < rails; ++rail) {
    text += (rail == 0 ? "" : ",") + rail_name(rail) + "=" + loopback_rail_address(rail, node);
  }
  if (cluster.emulation == Emulation::kPaced) {
    text += ";mbit=" + std::to_string(cluster.shape.rail_rate_mbit);
    text += pace_fd < 0 ? "" : ";fd=" + std::to_string(pace_fd);
  }
  return text;
}

// All rails by their common prefix, some of them by their exact names.
std::string interface_filter(uint32_t cluster_rails, uint32_t rails) {
  if (rails == cluster_rails) {
    return "rail";
  }
  std::string text = "=";
  for (uint32_t rail = 0; rail < rails; ++rail) {
    text += (rail == 0 ? "" : ",") + rail_name(rail);
  }
  return text;
}

}  // namespace

std::string_view to_string(Emulation emulation) {
  constexpr Names<3> kNames{"namespaces", "paced", "none"};
  return name_in(kNames, emulation);
}

Result<Emulation> parse_emulation(std::string_view text) {
  for (const Emulation emulation : {Emulation::kNamespaces, Emulation::kPaced, Emulation::kNone}) {
    if (text == to_string(emulation)) {
      return emulation;
    }
  }
  return invalid("unknown emulation '" + std::string(text) + "'; takes namespaces, paced or none");
}

Status check_shape(const ClusterShape& shape) {
  if (shape.nodes == 0 || shape.nodes > kMaxNodes) {
    return invalid(std::to_string(shape.nodes) + " nodes; an emulated cluster has 1 to " +
                   std::to_string(kMaxNodes));
  }
  if (shape.rails > kMaxRails) {
    return invalid(std::to_string(shape.rails) + " rails; an emulated cluster has at most " +
                   std::to_string(kMaxRails));
  }
  return {};
}

Cluster plain_cluster(Emulation emulation, const ClusterShape& shape) {
  Cluster cluster{.emulation = emulation, .shape = shape, .nodes = {}, .sizes = {}};
  if (emulation == Emulation::kNone) {
    cluster.shape.rail_rate_mbit = 0;
  }
  for (uint32_t node = 0; node < shape.nodes; ++node) {
    cluster.nodes.push_back({node_name(node), 0});
  }
  return cluster;
}

std::string node_name(uint32_t node) {
  return "node" + std::to_string(node);
}

std::string rail_name(uint32_t rail) {
  return "rail" + std::to_string(rail);
}

std::string rail_address(uint32_t rail, uint32_t node) {
  return dotted(10, rail + 1, node + 1);
}

std::string loopback_rail_address(uint32_t rail, uint32_t node) {
  return dotted(127, rail + 1, node + 1);
}

std::string management_address(uint32_t node) {
  return dotted(10, 0, node + 1);
}

std::string rail_port_name(uint32_t rail, uint32_t node) {
  return "n" + std::to_string(node) + "r" + std::to_string(rail);
}

std::string rail_bridge_name(uint32_t rail) {
  return "railbr" + std::to_string(rail);
}

std::string management_port_name(uint32_t node) {
  return "n" + std::to_string(node) + "m";
}

std::string rate_text(uint64_t rate_mbit) {
  return rate_mbit == 0 ? "unlimited" : std::to_string(rate_mbit) + " Mbit/s";
}

Result<GroupMap> place_block_or_round_robin(const GroupMap& sizes, bool round_robin) {
  if (!round_robin) {
    return sizes;
  }
  std::vector<std::vector<GlobalRank>> members(sizes.group_count());
  uint32_t next = 0;
  while (next < sizes.world_size()) {
    for (uint32_t node = 0; node < sizes.group_count(); ++node) {
      if (members[node].size() < sizes.group_size(GroupIndex(node))) {
        members[node].push_back(GlobalRank(next++));
      }
    }
  }
  return GroupMap::from_members(std::move(members));
}

Result<GroupMap> place_by_list(const GroupMap& sizes, std::string_view node_list) {
  std::vector<std::vector<GlobalRank>> members(sizes.group_count());
  uint32_t rank = 0;
  std::istringstream words{std::string(node_list)};
  for (std::string word; words >> word;) {
    const auto node = whole_number<uint32_t>(word);
    if (!node || *node >= members.size()) {
      return invalid("order file: rank " + std::to_string(rank) + " is on '" + word +
                     "'; takes a node number from 0 to " + std::to_string(members.size() - 1));
    }
    members[*node].push_back(GlobalRank(rank++));
  }
  for (uint32_t node = 0; node < members.size(); ++node) {
    const uint32_t expected = sizes.group_size(GroupIndex(node));
    if (members[node].size() != expected) {
      return invalid("order file: " + std::to_string(members[node].size()) + " ranks on " +
                     node_name(node) + ", but -n " + sizes.to_string() + " puts " +
                     std::to_string(expected) + " there");
    }
  }
  return GroupMap::from_members(std::move(members));
}

std::vector<uint32_t> cpus_of_node(const std::vector<uint32_t>& cpus,
                                   uint32_t node,
                                   uint32_t nodes) {
  const size_t count = cpus.size();
  if (count < nodes) {
    return count == 0 ? cpus : std::vector<uint32_t>{cpus[node % count]};
  }
  const auto edge = [&](size_t of) {
    return cpus.begin() + static_cast<ptrdiff_t>(of * count / nodes);
  };
  return {edge(node), edge(size_t{node} + 1)};
}

Environment node_environment(const Cluster& cluster, uint32_t node, uint32_t rails, int pace_fd) {
  Environment result;
  result.emplace_back(env::kEmulation.name, to_string(cluster.emulation));
  result.emplace_back(env::kRailRateMbit.name, std::to_string(cluster.shape.rail_rate_mbit));
  if (cluster.emulation == Emulation::kNamespaces) {
    result.emplace_back(env::kSocketIfname.name, interface_filter(cluster.shape.rails, rails));
    return result;
  }
  result.emplace_back(env::kHostId.name, node_name(node));
  if (rails > 0 || cluster.emulation == Emulation::kPaced) {
    result.emplace_back(env::kEmulatedRails.name, emulated_rails(cluster, node, rails, pace_fd));
  }
  return result;
}

Environment rank_environment(const Cluster& cluster,
                             const GroupMap& placement,
                             GlobalRank rank,
                             const JobFacts& job) {
  const GroupIndex node = placement.group_of(rank);
  Environment result = node_environment(cluster, node.value(), job.rails, job.pace_fd);
  result.emplace_back("RANK", std::to_string(rank.value()));
  result.emplace_back("WORLD_SIZE", std::to_string(placement.world_size()));
  result.emplace_back("LOCAL_RANK", std::to_string(placement.group_rank_of(rank).value()));
  result.emplace_back("LOCAL_WORLD_SIZE", std::to_string(placement.group_size(node)));
  result.emplace_back("MASTER_ADDR", job.master_address);
  result.emplace_back("MASTER_PORT", std::to_string(job.master_port));
  if (job.job_key_file.empty()) {
    result.emplace_back(env::kJobKey.name, job.job_key);
  } else {
    result.emplace_back(env::kJobKeyFile.name, job.job_key_file);
  }
  return result;
}

}  // namespace ho
