#include "topo_command.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/env.hpp"
#include "base/escaped.hpp"
#include "base/quantity.hpp"
#include "cli/host/gpus.hpp"
#include "cli/subcommands/exit_status.hpp"
#include "topo/assign.hpp"
#include "topo/discover.hpp"
#include "topo/filter.hpp"
#include "topo/rail_choice.hpp"

namespace ho {
namespace {

constexpr int kFailed = 1;
constexpr uint32_t kRanksWithoutGpus = 4;
constexpr uint32_t kMaxSyntheticRanks = 1024;

struct TopoOptions {
  std::optional<std::string> xml;
  std::optional<std::string> synthetic;
  bool json = false;
  uint32_t ranks = 0;  // 0: one per GPU, or 4
};

struct View {
  Topology topology;
  std::vector<InterfaceDecision> decisions;
  std::vector<RankLocation> locations;
  Assignment assignment;
  uint32_t network_rails = 0;  // of a job on several such hosts
  // Of this host only, not of a file or description.
  std::optional<Gpus> gpus;
  std::optional<TakenGpu> taken_gpu;
};

uint32_t rails_among_such_hosts(const Topology& topology,
                                const Assignment& assignment,
                                uint32_t wanted) {
  std::map<std::string, size_t> numbers;
  std::vector<RailNic> nics;
  for (const AssignedNic& nic : assignment.nic_of_rank) {
    const size_t number = numbers.emplace(nic.name, numbers.size()).first->second;
    nics.push_back({number, nic.speed_mbit});
  }
  const std::string& first = assignment.nic_of_rank.front().name;
  const bool loopback = std::ranges::any_of(
      topology.interfaces, [&](const auto& nic) { return nic.name == first && nic.loopback; });
  if (first.empty() || loopback) {
    return 0;
  }
  std::vector<RailNic> dealt;
  for (const size_t at : deal_nics(nics)) {
    dealt.push_back(nics[at]);
  }
  return choose_rail_count({dealt, dealt}, wanted);
}

Result<Topology> find_topology(const TopoOptions& options) {
  if (options.xml) {
    return discover_xml(*options.xml);
  }
  return options.synthetic ? discover_synthetic(*options.synthetic) : discover();
}

Result<View> look(const TopoOptions& options) {
  HORING_ASSIGN(Topology topology, find_topology(options));
  HORING_ASSIGN(const InterfaceFilter filter, interface_filter());
  const auto gpus = static_cast<uint32_t>(topology.gpus.size());
  const uint32_t ranks = options.ranks > 0 ? options.ranks : gpus > 0 ? gpus : kRanksWithoutGpus;
  std::vector<RankLocation> locations;
  std::vector<RankInfo> infos;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    locations.push_back(location_of_rank(topology, {}, rank));
    infos.push_back(make_rank_info(topology, filter, locations.back()));
  }
  HORING_ASSIGN(const uint64_t wanted, env::number(env::kRails));
  const auto rails = static_cast<uint32_t>(std::min<uint64_t>(wanted, ranks));
  HORING_ASSIGN(Assignment assignment, assign_rails(infos, std::nullopt, rails));
  const uint32_t network_rails = rails_among_such_hosts(topology, assignment, rails);
  View view{std::move(topology),
            {},
            std::move(locations),
            std::move(assignment),
            network_rails,
            std::nullopt,
            std::nullopt};
  view.decisions = judge_interfaces(view.topology.interfaces, filter);
  if (!options.xml && !options.synthetic) {
    const auto driver = device::driver();
    view.gpus = find_gpus(driver, view.topology, filter);
    view.taken_gpu = driver.ok() ? gpu_of_this_rank(**driver, *view.gpus) : std::nullopt;
  }
  return view;
}

const char* or_dash(const std::string& text) {
  return text.empty() ? "-" : text.c_str();
}

std::string node_text(int32_t node) {
  return node < 0 ? "NUMA ?" : "NUMA " + std::to_string(node);
}

std::string speed_text(uint64_t mbit) {
  return mbit == 0 ? "speed unknown" : std::to_string(mbit) + " Mbit/s";
}

std::string memory_text(uint64_t bytes) {
  return bytes == 0 ? "" : ", " + std::to_string(bytes >> 20U) + " MiB";
}

void print_devices(const Topology& topology) {
  std::printf("host %s (%s)\n", topology.host_name.c_str(), topology.source.c_str());
  std::printf("  identity %s\n", topology.host_id.c_str());
  // NCCL's files have neither packages, cores nor memory.
  if (topology.package_count > 0) {
    std::printf("  %u packages, %zu NUMA nodes, %u cores, %u CPUs\n",
                topology.package_count,
                topology.numa_nodes.size(),
                topology.core_count,
                topology.cpu_count);
  } else {
    std::printf("  %zu NUMA nodes, %u CPUs\n", topology.numa_nodes.size(), topology.cpu_count);
  }
  for (const NumaNode& node : topology.numa_nodes) {
    std::printf("  NUMA %u: CPUs %s%s\n",
                node.os_index,
                node.cpus.empty() ? "none" : ranges_text(node.cpus).c_str(),
                memory_text(node.memory_bytes).c_str());
    for (const GpuDevice& gpu : topology.gpus) {
      if (gpu.numa_node == static_cast<int32_t>(node.os_index)) {
        std::printf("    GPU %s at %s\n", gpu.name.c_str(), gpu.pci.c_str());
      }
    }
  }
  for (const GpuDevice& gpu : topology.gpus) {
    if (gpu.numa_node < 0) {
      std::printf("  GPU %s at %s, NUMA node unknown\n", gpu.name.c_str(), gpu.pci.c_str());
    }
  }
}

void print_gpus(const View& view) {
  if (!view.gpus) {
    return;
  }
  if (view.gpus->list.empty()) {
    std::printf("GPUs: none: %s\n", view.gpus->why_none.c_str());
    return;
  }
  std::printf("GPUs (driver %s)\n", view.gpus->driver.c_str());
  for (const Gpu& gpu : view.gpus->list) {
    std::printf("  GPU %d: %s\n", gpu.facts.ordinal, to_string(gpu).c_str());
  }
  if (view.taken_gpu) {
    std::printf("  %s\n", view.taken_gpu->text.c_str());
  }
}

void print_interfaces(const View& view) {
  std::printf("interfaces\n");
  for (size_t i = 0; i < view.decisions.size(); ++i) {
    const NetworkInterface& nic = view.topology.interfaces[i];
    std::printf("  %-12s %s, PCI %s, %s, operstate %s\n",
                nic.name.c_str(),
                node_text(nic.numa_node).c_str(),
                or_dash(nic.pci),
                speed_text(nic.speed_mbit).c_str(),
                nic.operstate.c_str());
    for (const std::string& address : nic.addresses) {
      std::printf("  %-12s   %s\n", "", address.c_str());
    }
    std::printf("  %-12s   %s\n", "", view.decisions[i].reason.c_str());
  }
  if (view.decisions.empty()) {
    std::printf("  none\n");
  }
}

// As explain_rank(), without the rail: one host has no rails, a job on several has the number
// below.
std::string rank_text(const View& view, uint32_t rank) {
  const AssignedNic& nic = view.assignment.nic_of_rank[rank];
  const std::string text = "rank " + std::to_string(rank) + ": ";
  if (nic.name.empty()) {
    return text + "no NIC";
  }
  return text + nic.name + " " + nic.address + " (" + distance_text(nic.distance) + ", " +
         (nic.sharers == 1 ? "its own" : "shared by " + std::to_string(nic.sharers) + " ranks") +
         ")";
}

std::string rails_text(uint32_t rails) {
  if (rails == 0) {
    return "impossible, no interface reaches another host: see the reasons above";
  }
  return std::to_string(rails) + (rails == 1 ? " rail" : " rails");
}

void print_ranks(const View& view) {
  const Assignment& assignment = view.assignment;
  std::printf("with %u ranks on this host\n", assignment.map.world_size());
  for (uint32_t rank = 0; rank < assignment.map.world_size(); ++rank) {
    const std::string& gpu = view.locations[rank].gpu_pci;
    std::printf(
        "  %s%s%s\n", rank_text(view, rank).c_str(), gpu.empty() ? "" : ", GPU ", gpu.c_str());
  }
  std::printf("in a job on several such hosts: %s\n", rails_text(view.network_rails).c_str());
  for (const std::string& warning : assignment.warnings) {
    std::printf("  warning: %s\n", warning.c_str());
  }
}

nlohmann::ordered_json devices_json(const Topology& topology) {
  nlohmann::ordered_json json;
  json["source"] = topology.source;
  json["host_name"] = topology.host_name;
  json["host_id"] = topology.host_id;
  json["package_count"] = topology.package_count;
  json["core_count"] = topology.core_count;
  json["cpu_count"] = topology.cpu_count;
  json["numa_nodes"] = nlohmann::ordered_json::array();
  for (const NumaNode& node : topology.numa_nodes) {
    json["numa_nodes"].push_back({{"os_index", node.os_index},
                                  {"memory_bytes", node.memory_bytes},
                                  {"cpus", ranges_text(node.cpus)}});
  }
  json["gpus"] = nlohmann::ordered_json::array();
  for (const GpuDevice& gpu : topology.gpus) {
    json["gpus"].push_back({{"name", gpu.name},
                            {"pci", gpu.pci},
                            {"numa_node", gpu.numa_node},
                            {"pci_path", gpu.pci_path}});
  }
  return json;
}

nlohmann::ordered_json interfaces_json(const View& view) {
  auto list = nlohmann::ordered_json::array();
  for (size_t i = 0; i < view.decisions.size(); ++i) {
    const NetworkInterface& nic = view.topology.interfaces[i];
    list.push_back({{"name", nic.name},
                    {"pci", nic.pci},
                    {"numa_node", nic.numa_node},
                    {"pci_path", nic.pci_path},
                    {"speed_mbit", nic.speed_mbit},
                    {"operstate", nic.operstate},
                    {"loopback", nic.loopback},
                    {"addresses", nic.addresses},
                    {"taken", view.decisions[i].taken},
                    {"reason", view.decisions[i].reason}});
  }
  return list;
}

nlohmann::ordered_json ranks_json(const View& view) {
  auto list = nlohmann::ordered_json::array();
  for (uint32_t rank = 0; rank < view.assignment.map.world_size(); ++rank) {
    const AssignedNic& nic = view.assignment.nic_of_rank[rank];
    const auto rail = view.assignment.map.rail_of(GlobalRank(rank));
    list.push_back({{"local_rank", rank},
                    {"rail", rail ? static_cast<int64_t>(rail->value()) : -1},
                    {"interface", nic.name},
                    {"address", nic.address},
                    {"distance", nic.name.empty() ? "" : distance_text(nic.distance)},
                    {"sharers", nic.name.empty() ? 0 : nic.sharers},
                    {"gpu", view.locations[rank].gpu_pci}});
  }
  return list;
}

// What the CUDA driver shows to this process; `gpus` above is what the host has.
nlohmann::ordered_json cuda_json(const View& view) {
  if (!view.gpus) {
    return nullptr;
  }
  nlohmann::ordered_json json{{"driver", view.gpus->driver}, {"why_none", view.gpus->why_none}};
  json["local_rank"] = nullptr;
  json["device_of_local_rank"] = nullptr;
  if (view.taken_gpu) {
    json["local_rank"] = view.taken_gpu->local_rank;
    json["device_of_local_rank"] = view.taken_gpu->device;
  }
  json["devices"] = nlohmann::ordered_json::array();
  for (const Gpu& gpu : view.gpus->list) {
    json["devices"].push_back(to_json(gpu));
  }
  return json;
}

void print_json(const View& view) {
  auto json = devices_json(view.topology);
  json["cuda"] = cuda_json(view);
  json["interfaces"] = interfaces_json(view);
  json["ranks"] = ranks_json(view);
  json["network_rails"] = view.network_rails;
  json["warnings"] = view.assignment.warnings;
  // Names are from files and kernels: anything that is not UTF-8 is replaced, not thrown over.
  std::printf("%s\n",
              json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

// The exit status where the command line ends the program.
std::optional<int> parse(int argc, const char* const* argv, TopoOptions& options) {
  CLI::App app(
      "Prints this host's packages, NUMA nodes, GPUs and network interfaces, why each interface is "
      "taken or dropped as a rail, and the rail of each local rank. Inside a job also which GPU "
      "this rank takes.",
      "horing topo");
  auto* xml = app.add_option(
      "--xml",
      options.xml,
      "hwloc XML file instead of this host (`lstopo --of xml FILE`), or a topology file of NCCL's; "
      "lstopo writes no IP addresses: add <info name=\"IPAddress\" value=\"10.1.0.1/24\"/> to "
      "interfaces (a job "
      "takes its host's)");
  app.add_option("--synthetic",
                 options.synthetic,
                 "description instead of this host: 'pack:2 numa:1 core:8 pu:1; "
                 "nic=eth0,numa=0,speed=100000,addr=10.1.0.1/24; gpu=cuda0,numa=0'")
      ->excludes(xml);
  app.add_flag("--json", options.json, "print JSON");
  app.add_option("--ranks", options.ranks, "local ranks; default: one per GPU, or 4")
      ->check(CLI::Range(1U, kMaxSyntheticRanks));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  }
  return std::nullopt;
}

}  // namespace

int topo_command(int argc, const char* const* argv) {
  TopoOptions options;
  if (const auto status = parse(argc, argv, options)) {
    return *status;
  }
  const auto view = look(options);
  if (!view.ok()) {
    std::fprintf(stderr, "horing topo: %s\n", message_text(view.status().message()).c_str());
    return kFailed;
  }
  if (options.json) {
    print_json(*view);
    return 0;
  }
  print_devices(view->topology);
  print_gpus(*view);
  print_interfaces(*view);
  print_ranks(*view);
  return 0;
}

}  // namespace ho
