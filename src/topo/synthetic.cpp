// Synthetic descriptions (discover.hpp has the syntax): hwloc builds the CPUs, the items behind the
// first semicolon add what hwloc's own strings cannot express.
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <vector>

#include "base/quantity.hpp"
#include "topo/address.hpp"
#include "topo/discover.hpp"
#include "topo/hwloc_reader.hpp"

namespace ho {
namespace {

constexpr size_t kMaxDescriptionBytes = 65536;
constexpr uint32_t kMaxCpus = 65536;

struct Field {
  std::string_view name;
  std::string_view value;
};

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(trim(text.substr(0, end)));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

Status bad_item(std::string_view item, const std::string& what) {
  return invalid("synthetic topology: '" + std::string(item) + "': " + what +
                 "; write for example nic=eth0,numa=0,speed=100000,addr=10.1.0.1/24 or "
                 "gpu=cuda0,numa=0 or host=node1");
}

Result<std::vector<Field>> fields_of(std::string_view item) {
  std::vector<Field> fields;
  for (const std::string_view part : split(item, ',')) {
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == part.size()) {
      return bad_item(item, "'" + std::string(part) + "' is not NAME=VALUE");
    }
    fields.push_back({trim(part.substr(0, equals)), trim(part.substr(equals + 1))});
  }
  return fields;
}

// Fields that nic and gpu have in common. False: not one of them.
template <typename Device>
Result<bool> set_location(std::string_view item,
                          const Field& field,
                          const Topology& topology,
                          Device& device) {
  if (field.name == "numa") {
    const auto node = whole_number<uint32_t>(field.value);
    const bool known = node && std::ranges::any_of(topology.numa_nodes, [&](const NumaNode& n) {
                         return n.os_index == *node;
                       });
    if (!known) {
      return bad_item(item, "numa=" + std::string(field.value) + " is no NUMA node of it");
    }
    device.numa_node = static_cast<int32_t>(*node);
    return true;
  }
  if (field.name == "switch") {
    device.pci_path = {"host", "switch" + std::string(field.value)};
    return true;
  }
  if (field.name == "pci") {
    device.pci = std::string(field.value);
    return true;
  }
  return false;
}

Status set_nic_field(std::string_view item, const Field& field, NetworkInterface& nic) {
  if (field.name == "speed") {
    const auto speed = whole_number<uint64_t>(field.value);
    if (!speed) {
      return bad_item(item, "speed=" + std::string(field.value) + " is no whole number of Mbit/s");
    }
    nic.speed_mbit = *speed;
    return {};
  }
  if (field.name == "state") {
    nic.operstate = std::string(field.value);
    return {};
  }
  if (field.name == "addr") {
    const auto address = parse_interface_address(field.value);
    if (!address) {
      return bad_item(
          item, "addr=" + std::string(field.value) + " is no numeric address with a prefix length");
    }
    nic.loopback = nic.loopback || address->loopback;
    nic.addresses.emplace_back(field.value);
    return {};
  }
  return bad_item(item, "a nic has no field '" + std::string(field.name) + "'");
}

Status add_nic(std::string_view item, const std::vector<Field>& fields, Topology& topology) {
  NetworkInterface nic;
  nic.name = std::string(fields.front().value);
  nic.operstate = "up";
  const bool twice = std::ranges::any_of(
      topology.interfaces, [&](const NetworkInterface& n) { return n.name == nic.name; });
  if (twice) {
    return bad_item(item, "there are two interfaces of this name");
  }
  for (size_t i = 1; i < fields.size(); ++i) {
    HORING_ASSIGN(const bool done, set_location(item, fields[i], topology, nic));
    const Status rest = done ? Status() : set_nic_field(item, fields[i], nic);
    HORING_TRY(rest);
  }
  topology.interfaces.push_back(std::move(nic));
  return {};
}

Status add_gpu(std::string_view item, const std::vector<Field>& fields, Topology& topology) {
  GpuDevice gpu;
  gpu.name = std::string(fields.front().value);
  for (size_t i = 1; i < fields.size(); ++i) {
    HORING_ASSIGN(const bool done, set_location(item, fields[i], topology, gpu));
    if (!done) {
      return bad_item(item, "a gpu has no field '" + std::string(fields[i].name) + "'");
    }
  }
  if (gpu.pci.empty()) {
    gpu.pci = gpu.name;  // a rank names its GPU by this
  }
  topology.gpus.push_back(std::move(gpu));
  return {};
}

Status add_item(std::string_view item, Topology& topology) {
  if (item.empty()) {
    return {};  // a semicolon at the end
  }
  HORING_ASSIGN(const auto fields, fields_of(item));
  const std::string_view kind = fields.front().name;
  if (kind == "nic") {
    return add_nic(item, fields, topology);
  }
  if (kind == "gpu") {
    return add_gpu(item, fields, topology);
  }
  if (kind == "host" && fields.size() == 1) {
    topology.host_name = std::string(fields.front().value);
    topology.host_id = topology.host_name;
    return {};
  }
  return bad_item(item, "an item is nic=NAME, gpu=NAME or host=NAME");
}

// hwloc would build whatever the numbers multiply to.
Status check_size(std::string_view machine) {
  uint64_t product = 1;
  for (const std::string_view word : split(machine, ' ')) {
    const size_t colon = word.find(':');
    uint32_t count = 0;
    if (colon == std::string_view::npos || word.starts_with('[')) {
      continue;
    }
    const std::string_view digits = word.substr(colon + 1);
    (void)std::from_chars(digits.data(), digits.data() + digits.size(), count);
    product *= std::max<uint32_t>(count, 1);
    if (product > kMaxCpus) {
      return invalid("synthetic topology: '" + std::string(machine) + "' has more than " +
                     std::to_string(kMaxCpus) + " objects");
    }
  }
  return {};
}

}  // namespace

Result<Topology> discover_synthetic(const std::string& description) {
  if (description.size() > kMaxDescriptionBytes || description.find('\0') != std::string::npos) {
    return invalid("synthetic topology: at most " + std::to_string(kMaxDescriptionBytes) +
                   " characters, none of them zero");
  }
  const auto items = split(description, ';');
  HORING_TRY(check_size(items.front()));
  auto loaded = read_hwloc(HwlocSource::kSynthetic, std::string(items.front()));
  if (!loaded.ok()) {
    return invalid("synthetic topology: '" + std::string(items.front()) +
                   "': " + loaded.status().message() +
                   "; write for example pack:2 numa:1 core:8 pu:1, then items behind semicolons");
  }
  Topology topology = std::move(loaded).value();
  topology.source = "synthetic";
  topology.host_name = "synthetic";
  topology.host_id = topology.host_name;
  for (size_t i = 1; i < items.size(); ++i) {
    HORING_TRY(add_item(items[i], topology));
  }
  std::ranges::sort(topology.interfaces,
                    [](const auto& a, const auto& b) { return natural_less(a.name, b.name); });
  return topology;
}

}  // namespace ho
