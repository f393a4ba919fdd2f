#include "topo/hwloc_reader.hpp"

#include <dlfcn.h>
#include <hwloc.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "base/quantity.hpp"
#include "topo/address.hpp"
#include "topo/display_chip.hpp"

namespace ho {
namespace {

// hwloc loads its PCI plugin, and with it libpciaccess, anew for every topology. That library keeps
// its state for the life of the process and cannot know that it is unloaded, so each load would
// lose a kilobyte. Kept loaded, it finds its state again. Where it is missing there is nothing to
// keep.
void keep_pciaccess_loaded() {
  void* const handle = ::dlopen("libpciaccess.so.0", RTLD_LAZY | RTLD_NODELETE);
  if (handle != nullptr) {
    ::dlclose(handle);
  }
}

struct DestroyTopology {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using TopologyHandle = std::unique_ptr<hwloc_topology, DestroyTopology>;
using PciAttributes = hwloc_obj_attr_u::hwloc_pcidev_attr_s;

Status hwloc_error(std::string_view what, int errno_value) {
  return invalid("hwloc " + std::string(what) + ": " + std::strerror(errno_value));
}

// These backends create contexts on accelerators and displays: seconds at start-up, for names that
// the PCI bus gives as well.
void leave_out_slow_backends(hwloc_topology_t topology) {
  for (const char* name : {"cuda", "nvml", "opencl", "rsmi", "levelzero", "gl"}) {
    // A backend that this hwloc was built without is refused, which is as good.
    (void)hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, name);
  }
}

Result<TopologyHandle> load(HwlocSource source, const std::string& text) {
  hwloc_topology_t raw = nullptr;
  keep_pciaccess_loaded();
  if (hwloc_topology_init(&raw) != 0) {
    return hwloc_error("cannot start", errno);
  }
  TopologyHandle topology(raw);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_BRIDGE, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (source == HwlocSource::kLive) {
    leave_out_slow_backends(raw);
  }
  if (text.size() >= INT_MAX) {
    return hwloc_error("input", EFBIG);
  }
  errno = EINVAL;
  if (source == HwlocSource::kXmlText &&
      hwloc_topology_set_xmlbuffer(raw, text.c_str(), static_cast<int>(text.size() + 1)) != 0) {
    return hwloc_error("does not read this XML", errno);
  }
  if (source == HwlocSource::kSynthetic && hwloc_topology_set_synthetic(raw, text.c_str()) != 0) {
    return hwloc_error("does not read this synthetic description", errno);
  }
  errno = EINVAL;
  if (hwloc_topology_load(raw) != 0) {
    return hwloc_error("cannot load this topology", errno);
  }
  return topology;
}

uint32_t count_of(hwloc_topology_t topology, hwloc_obj_type_t type) {
  return static_cast<uint32_t>(std::max(0, hwloc_get_nbobjs_by_type(topology, type)));
}

std::vector<NumaNode> numa_nodes(hwloc_topology_t topology) {
  std::vector<NumaNode> nodes;
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, object)) != nullptr) {
    NumaNode node;
    node.os_index = object->os_index;
    node.memory_bytes = object->attr->numanode.local_memory;
    for (int cpu = hwloc_bitmap_first(object->cpuset); cpu >= 0;
         cpu = hwloc_bitmap_next(object->cpuset, cpu)) {
      node.cpus.push_back(static_cast<uint32_t>(cpu));
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

std::string bus_id(const PciAttributes& pci) {
  std::array<char, 32> text{};
  std::snprintf(text.data(),
                text.size(),
                "%04x:%02x:%02x.%01x",
                static_cast<unsigned>(pci.domain),
                static_cast<unsigned>(pci.bus),
                static_cast<unsigned>(pci.dev),
                static_cast<unsigned>(pci.func));
  return text.data();
}

// The NUMA node that an I/O object is nearest to, or -1 where the object hangs under CPUs of
// several nodes. Of memories beside each other (DRAM with HBM or CXL memory), which are nodes with
// the same CPUs, it is the first; one for all of the host's CPUs says nothing where others are for
// some.
int32_t numa_of(hwloc_topology_t topology, hwloc_obj_t object) {
  const hwloc_obj* ancestor = hwloc_get_non_io_ancestor_obj(topology, object);
  if (ancestor == nullptr || ancestor->nodeset == nullptr || ancestor->cpuset == nullptr) {
    return -1;
  }
  hwloc_obj_t nearest = nullptr;
  hwloc_obj_t node = nullptr;
  int fewest_anywhere = INT_MAX;
  while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr) {
    const int cpus = hwloc_bitmap_weight(node->cpuset);
    fewest_anywhere = cpus > 0 ? std::min(fewest_anywhere, cpus) : fewest_anywhere;
    if (hwloc_bitmap_isset(ancestor->nodeset, node->os_index) != 0 &&
        hwloc_bitmap_isincluded(ancestor->cpuset, node->cpuset) != 0 &&
        (nearest == nullptr || cpus < hwloc_bitmap_weight(nearest->cpuset))) {
      nearest = node;
    }
  }
  if (nearest == nullptr) {
    return -1;
  }
  const int cpus = hwloc_bitmap_weight(nearest->cpuset);
  const bool whole_host = cpus == hwloc_bitmap_weight(hwloc_get_root_obj(topology)->cpuset);
  return whole_host && cpus > fewest_anywhere ? -1 : static_cast<int32_t>(nearest->os_index);
}

std::string bridge_name(const hwloc_obj* bridge) {
  if (bridge->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI) {
    return bus_id(bridge->attr->bridge.upstream.pci);
  }
  return "host" + std::to_string(bridge->logical_index);
}

std::vector<std::string> bridges_above(const hwloc_obj* object) {
  std::vector<std::string> path;
  for (const hwloc_obj* up = object->parent; up != nullptr; up = up->parent) {
    if (up->type == HWLOC_OBJ_BRIDGE) {
      path.push_back(bridge_name(up));
    }
  }
  std::ranges::reverse(path);
  return path;
}

// PCI class numbers.
constexpr uint16_t kVga = 0x0300;
constexpr uint16_t k3d = 0x0302;
constexpr uint16_t kOtherDisplay = 0x0380;
constexpr uint16_t kAccelerator = 0x1200;

// Display classes are GPUs where the maker makes compute GPUs: servers have a display chip on their
// management controller too.
bool is_gpu(const PciAttributes& pci) {
  const uint16_t class_id = pci.class_id;
  if (class_id == k3d || class_id == kAccelerator) {
    return true;
  }
  const bool compute_maker = pci.vendor_id == 0x10de || pci.vendor_id == 0x1002;
  return (class_id == kOtherDisplay || (class_id == kVga && compute_maker)) &&
         !only_displays(pci.vendor_id, pci.device_id);
}

// "cuda0" or similar, if the file has it; else the PCI name.
std::string gpu_name(const hwloc_obj* device, const std::string& pci) {
  for (const hwloc_obj* child = device->io_first_child; child != nullptr;
       child = child->next_sibling) {
    const std::string_view name = child->name == nullptr ? "" : child->name;
    if (child->type == HWLOC_OBJ_OS_DEVICE &&
        (name.starts_with("cuda") || name.starts_with("rsmi") || name.starts_with("nvml"))) {
      return std::string(name);
    }
  }
  return pci;
}

std::vector<GpuDevice> gpus(hwloc_topology_t topology) {
  std::vector<GpuDevice> found;
  hwloc_obj_t device = nullptr;
  while ((device = hwloc_get_next_pcidev(topology, device)) != nullptr) {
    if (!is_gpu(device->attr->pcidev)) {
      continue;
    }
    GpuDevice gpu;
    gpu.pci = bus_id(device->attr->pcidev);
    gpu.name = gpu_name(device, gpu.pci);
    gpu.numa_node = numa_of(topology, device);
    gpu.pci_path = bridges_above(device);
    found.push_back(std::move(gpu));
  }
  std::ranges::sort(found, [](const auto& a, const auto& b) { return a.pci < b.pci; });
  return found;
}

Status add_attribute(std::string_view name, std::string_view value, NetworkInterface& interface) {
  if (name == "Speed") {
    const auto speed = whole_number<uint64_t>(value);
    interface.speed_mbit = speed.value_or(0);
    if (!speed) {
      return invalid("interface " + interface.name + ": Speed '" + std::string(value) +
                     "' is no whole number of Mbit/s");
    }
  } else if (name == "Operstate") {
    interface.operstate = std::string(value);
  } else if (name == "IPAddress") {
    const auto address = parse_interface_address(value);
    if (!address) {
      return invalid("interface " + interface.name + ": IPAddress '" + std::string(value) +
                     "' is no numeric address with a prefix length, such as 10.1.0.1/24");
    }
    interface.loopback = interface.loopback || address->loopback;
    interface.addresses.emplace_back(value);
  }
  return {};
}

Result<NetworkInterface> network_interface(hwloc_topology_t topology, hwloc_obj_t object) {
  NetworkInterface interface;
  interface.name = object->name == nullptr ? "" : object->name;
  interface.operstate = "unknown";  // hwloc does not store it
  interface.numa_node = numa_of(topology, object);
  interface.pci_path = bridges_above(object);
  for (const hwloc_obj* up = object->parent; up != nullptr; up = up->parent) {
    if (up->type == HWLOC_OBJ_PCI_DEVICE) {
      interface.pci = bus_id(up->attr->pcidev);
      break;
    }
  }
  for (unsigned i = 0; i < object->infos_count; ++i) {
    const hwloc_info_s& attribute = object->infos[i];
    HORING_TRY(add_attribute(attribute.name, attribute.value, interface));
  }
  return interface;
}

}  // namespace

Result<Topology> read_hwloc(HwlocSource source, const std::string& text) {
  HORING_ASSIGN(const TopologyHandle handle, load(source, text));
  hwloc_topology_t topology = handle.get();
  Topology value;
  value.package_count = count_of(topology, HWLOC_OBJ_PACKAGE);
  value.core_count = count_of(topology, HWLOC_OBJ_CORE);
  value.cpu_count = count_of(topology, HWLOC_OBJ_PU);
  value.numa_nodes = numa_nodes(topology);
  value.gpus = gpus(topology);
  if (const char* host = hwloc_obj_get_info_by_name(hwloc_get_root_obj(topology), "HostName")) {
    value.host_name = host;
  }
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_osdev(topology, object)) != nullptr) {
    if (object->attr->osdev.type != HWLOC_OBJ_OSDEV_NETWORK) {
      continue;
    }
    HORING_ASSIGN(auto interface, network_interface(topology, object));
    if (!interface.name.empty()) {
      value.interfaces.push_back(std::move(interface));
    }
  }
  std::ranges::sort(value.interfaces,
                    [](const auto& a, const auto& b) { return natural_less(a.name, b.name); });
  return value;
}

}  // namespace ho
