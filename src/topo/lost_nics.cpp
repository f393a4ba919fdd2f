#include "topo/lost_nics.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "topo/filter.hpp"

namespace ho {
namespace {

struct HostNics {
  std::string name;
  std::set<std::string> taken;
  std::map<std::string, std::string> down;  // name to reason
  std::map<std::string, std::string> lost;  // those of them that the job would use
  size_t ranks = 0;
};

std::vector<HostNics> nics_of_hosts(std::span<const RankInfo> infos, const Assignment& assignment) {
  std::vector<HostNics> hosts(assignment.host_names.size());
  for (size_t rank = 0; rank < infos.size(); ++rank) {
    HostNics& host = hosts[assignment.host_of_rank[rank]];
    host.name = assignment.host_names[assignment.host_of_rank[rank]];
    ++host.ranks;
    for (const RankNic& nic : infos[rank].nics) {
      host.taken.insert(nic.name);
    }
    for (const DroppedNic& nic : infos[rank].dropped) {
      if (dropped_for_state(nic.reason)) {
        host.down.emplace(nic.name, nic.reason);
      }
    }
  }
  return hosts;
}

void find_lost(std::vector<HostNics>& hosts) {
  std::set<std::string> taken_somewhere;
  for (const HostNics& host : hosts) {
    taken_somewhere.insert(host.taken.begin(), host.taken.end());
  }
  for (HostNics& host : hosts) {
    for (const auto& [name, reason] : host.down) {
      if (!host.taken.contains(name) &&
          (taken_somewhere.contains(name) || was_configured(reason))) {
        host.lost.emplace(name, reason);
      }
    }
  }
}

// What most hosts have; of equally many, the larger number.
size_t usual_count(const std::vector<HostNics>& hosts) {
  std::map<size_t, size_t> hosts_with;
  for (const HostNics& host : hosts) {
    ++hosts_with[host.taken.size() + host.lost.size()];
  }
  size_t usual = 0;
  for (const auto& [count, number] : hosts_with) {
    usual = number >= hosts_with[usual] ? count : usual;
  }
  return usual;
}

// Rails that the job could have if every interface worked, as far as ranks go.
size_t rails_with_all(const GroupMap& map, size_t usual) {
  size_t rails = usual;
  for (uint32_t group = 0; group < map.group_count(); ++group) {
    rails = std::min<size_t>(rails, map.group_size(GroupIndex(group)));
  }
  return rails;
}

}  // namespace

std::vector<std::string> lost_nics(std::span<const RankInfo> infos, const Assignment& assignment) {
  std::vector<std::string> lines;
  if (assignment.map.group_count() < 2) {
    return lines;
  }
  std::vector<HostNics> hosts = nics_of_hosts(infos, assignment);
  find_lost(hosts);
  const size_t usual = usual_count(hosts);
  const size_t rails = assignment.map.rail_count();
  const size_t possible = rails_with_all(assignment.map, usual);
  const std::string effect = possible > rails ? "; the job uses " + std::to_string(rails) + " of " +
                                                    std::to_string(possible) + " rails"
                                              : "";
  for (const HostNics& host : hosts) {
    for (const auto& [name, reason] : host.lost) {
      std::string& line = lines.emplace_back(host.name);
      line.append(": ").append(name).append(" ").append(reason).append(effect);
    }
    const size_t there = host.taken.size() + host.lost.size();
    if (there < usual && there < host.ranks) {
      lines.push_back(host.name + ": " + std::to_string(there) +
                      " usable interface(s) where most hosts have " + std::to_string(usual) +
                      effect);
    }
  }
  return lines;
}

}  // namespace ho
