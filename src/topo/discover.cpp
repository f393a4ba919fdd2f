#include "topo/discover.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <optional>
#include <vector>

#include "base/env.hpp"
#include "base/text_file.hpp"
#include "topo/emulation.hpp"
#include "topo/host_identity.hpp"
#include "topo/hwloc_reader.hpp"
#include "topo/interfaces.hpp"
#include "topo/nccl_topology.hpp"
#include "topo/xml_scan.hpp"
#include "topo/xml_shape.hpp"

namespace ho {
namespace {

constexpr size_t kMaxXmlBytes = size_t{64} << 20U;
constexpr const char* kHowToMake = "; `lstopo --of xml FILE` writes such a file";

Status xml_error(const std::string& path, const std::string& what) {
  return invalid("topology file " + path + ": " + what + kHowToMake);
}

Result<std::string> read_text(const std::string& path) {
  Result<std::string> text = read_text_file(path, kMaxXmlBytes);
  return text.ok() ? std::move(text) : xml_error(path, text.status().message());
}

const NetworkInterface* find_interface(std::span<const NetworkInterface> interfaces,
                                       const std::string& name) {
  const auto found = std::ranges::find_if(
      interfaces, [&](const auto& interface) { return interface.name == name; });
  return found == interfaces.end() ? nullptr : &*found;
}

// NCCL's files have cards, or their InfiniBand names, and no names of interfaces.
const NetworkInterface* find_at(std::span<const NetworkInterface> interfaces,
                                const std::string& pci) {
  const auto found = std::ranges::find_if(
      interfaces, [&](const auto& interface) { return !pci.empty() && interface.pci == pci; });
  return found == interfaces.end() ? nullptr : &*found;
}

// getifaddrs lists the interfaces; hwloc adds the PCI path of those that sysfs placed.
void adopt_pci(std::span<const NetworkInterface> from_hwloc, NetworkInterface& interface) {
  const NetworkInterface* known = find_interface(from_hwloc, interface.name);
  if (known == nullptr || interface.pci.empty() || known->pci != interface.pci) {
    return;
  }
  interface.pci_path = known->pci_path;
  if (known->numa_node >= 0) {
    interface.numa_node = known->numa_node;
  }
}

std::vector<std::string> pci_devices() {
  std::vector<std::string> names;
  std::error_code error;
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator entry("/sys/bus/pci/devices", error);
       !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

// Read once in a process, and again when a device has appeared or gone: each access to a PCI device
// traps in a virtual machine, and every communicator needs this.
Result<Topology> live_devices() {
  static std::mutex mutex;
  static std::vector<std::string> known;
  static std::optional<Topology> read;
  auto devices = pci_devices();
  const std::lock_guard lock(mutex);
  if (!read.has_value() || known != devices) {
    HORING_ASSIGN(read, read_hwloc(HwlocSource::kLive, ""));
    known = std::move(devices);
  }
  return *read;
}

Result<Topology> read_xml(std::string_view xml, const std::string& path) {
  const std::string_view root = xml_root(xml);
  if (root == "graphs") {
    return xml_error(path, "is NCCL's file of graphs (NCCL_GRAPH_FILE), which has no topology");
  }
  if (root == "system") {
    auto loaded = read_nccl_topology(xml);
    return loaded.ok()
               ? loaded
               : invalid("topology file " + path + ", one of NCCL's: " + loaded.status().message() +
                         "; NCCL_TOPO_DUMP_FILE=FILE writes such a file");
  }
  if (const auto fault = xml_fault(xml)) {
    return xml_error(path, *fault);
  }
  auto loaded = read_hwloc(HwlocSource::kXmlText, std::string(xml));
  if (!loaded.ok()) {
    return xml_error(path, loaded.status().message());
  }
  return loaded;
}

}  // namespace

Result<Topology> discover_live(const SystemRoots& roots) {
  auto loaded = live_devices();
  if (!loaded.ok()) {
    return loaded.status().with_context("discovering this host's topology");
  }
  Topology topology = std::move(loaded).value();
  HORING_ASSIGN(auto interfaces, live_interfaces(roots.sysfs));
  for (NetworkInterface& interface : interfaces) {
    adopt_pci(topology.interfaces, interface);
  }
  topology.source = "live";
  topology.interfaces = std::move(interfaces);
  topology.host_name = host_name();
  HORING_ASSIGN(topology.host_id, host_identity(roots.proc));
  return topology;
}

Result<Topology> parse_topology_xml(std::string_view xml, const std::string& path) {
  HORING_ASSIGN(Topology topology, read_xml(xml, path));
  if (topology.cpu_count == 0) {
    return xml_error(path, "has no CPUs");
  }
  topology.source = "xml " + path;
  if (topology.host_name.empty()) {
    topology.host_name = std::filesystem::path(path).stem().string();
  }
  topology.host_id = topology.host_name;
  return topology;
}

Result<Topology> discover_xml(const std::string& path) {
  HORING_ASSIGN(const std::string text, read_text(path));
  return parse_topology_xml(text, path);
}

void adopt_live(std::span<const NetworkInterface> live, Topology& topology) {
  for (NetworkInterface& interface : topology.interfaces) {
    const NetworkInterface* here = find_interface(live, interface.name);
    here = here == nullptr ? find_at(live, interface.pci) : here;
    if (here == nullptr) {
      interface.operstate = "absent";
      continue;
    }
    interface.name = here->name;
    interface.addresses = here->addresses;
    interface.operstate = here->operstate;
    interface.loopback = here->loopback;
    interface.reach = here->reach;
    if (interface.speed_mbit == 0) {
      interface.speed_mbit = here->speed_mbit;
    }
  }
}

Result<Topology> discover(const SystemRoots& roots) {
  const std::string path = env::text(env::kTopoFile);
  if (path.empty()) {
    HORING_ASSIGN(Topology topology, discover_live(roots));
    HORING_TRY(adopt_emulation(topology));
    return topology;
  }
  auto loaded = discover_xml(path);
  if (!loaded.ok()) {
    return loaded.status().with_context("HORING_TOPO_FILE");
  }
  Topology topology = std::move(loaded).value();
  HORING_ASSIGN(const auto live, live_interfaces(roots.sysfs));
  adopt_live(live, topology);
  topology.host_name = host_name();
  HORING_ASSIGN(topology.host_id, host_identity(roots.proc));
  HORING_TRY(adopt_emulation(topology));
  return topology;
}

}  // namespace ho
