// An emulated cluster as a value: how many nodes and rails, what everything is called and which
// address it has, where each rank runs and what its environment has. Pure.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "group/group_map.hpp"

namespace ho {

enum class Emulation : uint8_t {
  kNamespaces,  // nodes are sets of namespaces, rails are links shaped by HTB
  kPaced,       // nodes are labels on processes, rails are loopback addresses paced by the sender
  kNone,        // like kPaced, at the full speed of loopback
};
[[nodiscard]] std::string_view to_string(Emulation emulation);
[[nodiscard]] Result<Emulation> parse_emulation(std::string_view text);

struct ClusterShape {
  uint32_t nodes = 1;
  uint32_t rails = 0;
  uint64_t rail_rate_mbit = 0;  // each way; 0: as fast as the host
};

struct ClusterNode {
  std::string name;
  pid_t init_pid = 0;  // 0: no namespaces of its own
};

// A cluster that is up.
struct Cluster {
  Emulation emulation = Emulation::kNone;
  ClusterShape shape;
  std::vector<ClusterNode> nodes;
  std::string sizes;  // of a job with a rank for each place, as -n takes them: "2x2"
};

inline constexpr uint32_t kMaxNodes = 250;  // node n has the host number n + 1; 254 is the outside
inline constexpr uint32_t kMaxRails = 200;
inline constexpr uint32_t kMaxRanks = 1024;
inline constexpr std::string_view kOutsideAddress = "10.0.0.254";

[[nodiscard]] Status check_shape(const ClusterShape& shape);
// Nodes without namespaces, for kPaced and kNone.
[[nodiscard]] Cluster plain_cluster(Emulation emulation, const ClusterShape& shape);

[[nodiscard]] std::string node_name(uint32_t node);                             // "node1"
[[nodiscard]] std::string rail_name(uint32_t rail);                             // "rail0"
[[nodiscard]] std::string rail_address(uint32_t rail, uint32_t node);           // "10.1.0.2"
[[nodiscard]] std::string loopback_rail_address(uint32_t rail, uint32_t node);  // "127.1.0.2"
[[nodiscard]] std::string management_address(uint32_t node);                    // "10.0.0.2"
[[nodiscard]] std::string rail_port_name(uint32_t rail, uint32_t node);         // "n1r0", outside
[[nodiscard]] std::string rail_bridge_name(uint32_t rail);                      // "railbr0"
[[nodiscard]] std::string management_port_name(uint32_t node);                  // "n1m", outside

// "200 Mbit/s" or "unlimited"
[[nodiscard]] std::string rate_text(uint64_t rate_mbit);

// `sizes` is the map that "-n" gave. Order: "block", "round-robin", or the text of a file that
// lists the node number of each rank in rank order, separated by white space.
[[nodiscard]] Result<GroupMap> place_block_or_round_robin(const GroupMap& sizes, bool round_robin);
[[nodiscard]] Result<GroupMap> place_by_list(const GroupMap& sizes, std::string_view node_list);

// Of these CPUs those that a node keeps to, so that nodes share none: equal parts in order. Where
// there are more nodes than CPUs, one for each, taken in turns.
[[nodiscard]] std::vector<uint32_t> cpus_of_node(const std::vector<uint32_t>& cpus,
                                                 uint32_t node,
                                                 uint32_t nodes);

struct JobFacts {
  std::string master_address;
  uint16_t master_port = 0;
  std::string job_key;       // or
  std::string job_key_file;  // absolute path
  uint32_t rails = 0;        // of the cluster's rails, those that this job uses
  int pace_fd = -1;
};

using Environment = std::vector<std::pair<std::string, std::string>>;
// What a rank's environment gets on top of the launcher's own.
[[nodiscard]] Environment rank_environment(const Cluster& cluster,
                                           const GroupMap& placement,
                                           GlobalRank rank,
                                           const JobFacts& job);
// What any process gets that runs on that node. pace_fd: as in JobFacts.
[[nodiscard]] Environment node_environment(const Cluster& cluster,
                                           uint32_t node,
                                           uint32_t rails,
                                           int pace_fd = -1);

}  // namespace ho
