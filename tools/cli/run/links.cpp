#include "cli/run/links.hpp"

namespace ho {

namespace {

constexpr std::string_view kManagementBridge = "mgmtbr";

std::string bridge_lines(std::string_view bridge) {
  const std::string name(bridge);
  return "link add name " + name + " type bridge mcast_snooping 0\nlink set dev " + name + " up\n";
}

std::string pair_lines(const std::string& port,
                       const std::string& inner,
                       pid_t node,
                       const std::string& bridge) {
  return "link add name " + port + " type veth peer name " + inner + " netns " +
         std::to_string(node) + "\nlink set dev " + port + " master " + bridge + " up\n";
}

std::string class_parameters(uint64_t rate_mbit) {
  return " htb rate " + std::to_string(rate_mbit) + "mbit burst 16kb cburst 16kb quantum 60000\n";
}

std::string shape_lines(const std::string& device, uint64_t rate_mbit) {
  if (rate_mbit == 0) {
    return {};
  }
  return "qdisc add dev " + device + " root handle 1: htb default 1\nclass add dev " + device +
         " parent 1: classid 1:1" + class_parameters(rate_mbit) + "qdisc add dev " + device +
         " parent 1:1 handle 10: bfifo limit 512kb\n";
}

std::string address_lines(const std::string& device, const std::string& address) {
  return "address add " + address + "/24 dev " + device + "\nlink set dev " + device + " up\n";
}

}  // namespace

std::string outside_link_script(const Cluster& cluster) {
  std::string script = "link set dev lo up\n" + bridge_lines(kManagementBridge) + "address add " +
                       std::string(kOutsideAddress) + "/24 dev " + std::string(kManagementBridge) +
                       "\n";
  for (uint32_t rail = 0; rail < cluster.shape.rails; ++rail) {
    script += bridge_lines(rail_bridge_name(rail));
  }
  for (uint32_t node = 0; node < cluster.shape.nodes; ++node) {
    const pid_t init = cluster.nodes[node].init_pid;
    script += pair_lines(management_port_name(node), "mgmt0", init, std::string(kManagementBridge));
    for (uint32_t rail = 0; rail < cluster.shape.rails; ++rail) {
      script +=
          pair_lines(rail_port_name(rail, node), rail_name(rail), init, rail_bridge_name(rail));
    }
  }
  return script;
}

std::string outside_shape_script(const ClusterShape& shape) {
  std::string script;
  for (uint32_t node = 0; node < shape.nodes; ++node) {
    for (uint32_t rail = 0; rail < shape.rails; ++rail) {
      script += shape_lines(rail_port_name(rail, node), shape.rail_rate_mbit);
    }
  }
  return script;
}

std::string node_link_script(const ClusterShape& shape, uint32_t node) {
  std::string script = "link set dev lo up\n" + address_lines("mgmt0", management_address(node));
  for (uint32_t rail = 0; rail < shape.rails; ++rail) {
    script += address_lines(rail_name(rail), rail_address(rail, node));
  }
  return script;
}

std::string node_shape_script(const ClusterShape& shape) {
  std::string script;
  for (uint32_t rail = 0; rail < shape.rails; ++rail) {
    script += shape_lines(rail_name(rail), shape.rail_rate_mbit);
  }
  return script;
}

std::string reshape_script(const std::string& device, uint64_t rate_mbit) {
  return "class change dev " + device + " parent 1: classid 1:1" + class_parameters(rate_mbit);
}

}  // namespace ho
