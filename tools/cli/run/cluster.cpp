#include "cli/run/cluster.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/env.hpp"
#include "cli/run/links.hpp"
#include "cli/run/namespaces.hpp"
#include "cli/run/process.hpp"

namespace ho {
namespace {

Status run_ip(const std::string& script, pid_t network_of) {
  return run_program({"ip", "-batch", "-"}, script, network_of);
}

Status run_tc(const std::string& script, pid_t network_of) {
  return run_program({"tc", "-batch", "-"}, script, network_of);
}

// An empty script shapes nothing.
Status connect(const std::string& links, const std::string& rates, pid_t network_of) {
  HORING_TRY(run_ip(links, network_of));
  return rates.empty() ? Status() : run_tc(rates, network_of);
}

Status check_link(const Cluster& cluster, uint32_t node, uint32_t rail) {
  if (cluster.emulation != Emulation::kNamespaces) {
    return {StatusCode::kUnsupported,
            "links change only on a cluster of namespaces; this one is " +
                std::string(to_string(cluster.emulation))};
  }
  if (node >= cluster.shape.nodes || rail >= cluster.shape.rails) {
    return invalid("no rail " + std::to_string(rail) + " on node " + std::to_string(node) +
                   "; the cluster has " + std::to_string(cluster.shape.nodes) + " nodes and " +
                   std::to_string(cluster.shape.rails) + " rails, counted from 0");
  }
  return {};
}

}  // namespace

Result<Cluster> bring_up(const ClusterShape& shape) {
  HORING_TRY(check_shape(shape));
  Cluster cluster = plain_cluster(Emulation::kNamespaces, shape);
  for (ClusterNode& node : cluster.nodes) {
    HORING_ASSIGN(node.init_pid, start_node(node.name));
  }
  HORING_TRY(connect(outside_link_script(cluster), outside_shape_script(shape), 0)
                 .with_context("bridges and links"));
  for (uint32_t node = 0; node < shape.nodes; ++node) {
    const pid_t init = cluster.nodes[node].init_pid;
    HORING_TRY(connect(node_link_script(shape, node), node_shape_script(shape), init)
                   .with_context(node_name(node)));
  }
  return cluster;
}

std::string to_json(const Cluster& cluster) {
  nlohmann::json nodes = nlohmann::json::array();
  for (uint32_t node = 0; node < cluster.shape.nodes; ++node) {
    nlohmann::json rails = nlohmann::json::object();
    for (uint32_t rail = 0; rail < cluster.shape.rails; ++rail) {
      rails[rail_name(rail)] = cluster.emulation == Emulation::kNamespaces
                                   ? rail_address(rail, node)
                                   : loopback_rail_address(rail, node);
    }
    nodes.push_back({{"name", cluster.nodes[node].name},
                     {"init_pid", cluster.nodes[node].init_pid},
                     {"management_address", management_address(node)},
                     {"rails", rails}});
  }
  return nlohmann::json({{"emulation", to_string(cluster.emulation)},
                         {"rails", cluster.shape.rails},
                         {"rail_rate_mbit", cluster.shape.rail_rate_mbit},
                         {"ranks", cluster.sizes},
                         {"nodes", nodes}})
      .dump(2);
}

Result<Cluster> parse_cluster(std::string_view json) {
  try {
    const nlohmann::json root = nlohmann::json::parse(json);
    Cluster cluster;
    HORING_ASSIGN(cluster.emulation, parse_emulation(root.at("emulation").get<std::string>()));
    cluster.shape.rails = root.at("rails").get<uint32_t>();
    cluster.shape.rail_rate_mbit = root.at("rail_rate_mbit").get<uint64_t>();
    cluster.sizes = root.value("ranks", "");
    for (const nlohmann::json& node : root.at("nodes")) {
      cluster.nodes.push_back(
          {node.at("name").get<std::string>(), node.at("init_pid").get<pid_t>()});
    }
    cluster.shape.nodes = static_cast<uint32_t>(cluster.nodes.size());
    HORING_TRY(check_shape(cluster.shape));
    return cluster;
  } catch (const nlohmann::json::exception& error) {
    return invalid(std::string("not a description of a cluster: ") + error.what());
  }
}

Result<std::optional<Cluster>> surrounding_cluster() {
  const std::optional<std::string> path = env::text_if_set(env::kCluster);
  if (!path.has_value()) {
    return std::optional<Cluster>();
  }
  std::ifstream file(*path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) {
    return Status(StatusCode::kSystem,
                  "HORING_CLUSTER=" + *path +
                      " cannot be read; it is set by horing cluster and valid "
                      "only inside it; unset it elsewhere");
  }
  Result<Cluster> cluster = parse_cluster(text.str());
  if (!cluster.ok()) {
    return cluster.status().with_context("HORING_CLUSTER=" + *path);
  }
  return std::optional<Cluster>(std::move(cluster).value());
}

Status set_link_state(const Cluster& cluster, uint32_t node, uint32_t rail, LinkState state) {
  HORING_TRY(check_link(cluster, node, rail));
  const std::string port = "link set dev " + rail_port_name(rail, node);
  switch (state) {
    case LinkState::kUp:
      return run_ip(port + " master " + rail_bridge_name(rail) + " up\n", 0);
    case LinkState::kDown:
      return run_ip(port + " down\n", 0);
    case LinkState::kBlackhole:
      return run_ip(port + " nomaster\n", 0);
  }
  return invalid("no such state of a link");
}

Status set_link_rate(const Cluster& cluster, uint32_t node, uint32_t rail, uint64_t rate_mbit) {
  HORING_TRY(check_link(cluster, node, rail));
  if (rate_mbit == 0 || cluster.shape.rail_rate_mbit == 0) {
    return invalid("a rate changes only between limits; bring the cluster up with --rail-rate");
  }
  HORING_TRY(run_tc(reshape_script(rail_port_name(rail, node), rate_mbit), 0));
  return run_tc(reshape_script(rail_name(rail), rate_mbit), cluster.nodes[node].init_pid);
}

}  // namespace ho
