#include "cli/host/gpus.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/text_file.hpp"
#include "bootstrap/rendezvous/rendezvous.hpp"
#include "topo/assign.hpp"
#include "topo/rank_info.hpp"

namespace ho {
namespace {

// NVIDIA's own version, which the CUDA driver does not tell; "" where the kernel module is another.
std::string module_version() {
  constexpr size_t kMaxBytes = 4096;
  const auto text = read_text_file("/sys/module/nvidia/version", kMaxBytes);
  return text.ok() ? text->substr(0, text->find_first_of(" \n")) : "";
}

Result<std::vector<device::DeviceFacts>> all_facts(const device::Driver& driver) {
  HORING_ASSIGN(const int count, device::device_count(driver));
  std::vector<device::DeviceFacts> all;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    HORING_ASSIGN(auto facts, device::device_facts(driver, ordinal));
    all.push_back(std::move(facts));
  }
  return all;
}

const GpuDevice* device_of(const Topology& topology, const device::DeviceFacts& facts) {
  const auto found =
      std::ranges::find(topology.gpus, facts.pci_bus_id, [](const auto& gpu) { return gpu.pci; });
  return found == topology.gpus.end() ? nullptr : &*found;
}

std::string nearness(const GpuDevice* location, Distance distance) {
  // Without a path, how far a NIC is says nothing about the GPU.
  return location == nullptr || location->pci_path.empty() || distance == kUnknownDistance
             ? "any: no PCI path known"
             : distance_text(distance);
}

// As a job with a rank for each of the GPUs gets them.
void assign_nics(const Topology& topology, const InterfaceFilter& filter, std::vector<Gpu>& gpus) {
  std::vector<RankInfo> infos;
  for (const Gpu& gpu : gpus) {
    infos.push_back(make_rank_info(topology, filter, {gpu.numa_node, gpu.facts.pci_bus_id}));
  }
  const auto assignment = assign_rails(infos, std::nullopt, 0);
  if (!assignment.ok()) {
    return;
  }
  for (size_t i = 0; i < gpus.size(); ++i) {
    const AssignedNic& nic = assignment->nic_of_rank[i];
    gpus[i].interface = nic.name;
    gpus[i].nearness =
        nic.name.empty() ? "" : nearness(device_of(topology, gpus[i].facts), nic.distance);
  }
}

}  // namespace

Gpus find_gpus(const Result<const device::Driver*>& driver,
               const Topology& topology,
               const InterfaceFilter& filter) {
  Gpus gpus;
  if (!driver.ok()) {
    gpus.why_none = driver.status().message();
    return gpus;
  }
  const auto facts = all_facts(**driver);
  if (!facts.ok()) {
    gpus.why_none = facts.status().message();
    return gpus;
  }
  const auto version = device::cuda_version(**driver);
  const std::string module = module_version();
  gpus.driver = module + (module.empty() ? "CUDA " : ", CUDA ") + (version.ok() ? *version : "?");
  for (const device::DeviceFacts& each : *facts) {
    const GpuDevice* const location = device_of(topology, each);
    gpus.list.push_back({each, location == nullptr ? -1 : location->numa_node, {}, {}});
  }
  if (gpus.list.empty()) {
    gpus.why_none = "the driver (" + gpus.driver +
                    ") shows this process no GPU; look at nvidia-smi and CUDA_VISIBLE_DEVICES";
    return gpus;
  }
  assign_nics(topology, filter, gpus.list);
  return gpus;
}

std::string gib_text(size_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / static_cast<double>(size_t{1} << 30U));
}

std::string to_string(const Gpu& gpu) {
  return fmt::format(
      "{}, {} GiB, {}, NUMA {}, {}",
      gpu.facts.name,
      gib_text(gpu.facts.memory_bytes),
      gpu.facts.pci_bus_id,
      gpu.numa_node < 0 ? "?" : std::to_string(gpu.numa_node),
      gpu.interface.empty() ? "no NIC" : fmt::format("NIC {} ({})", gpu.interface, gpu.nearness));
}

nlohmann::ordered_json to_json(const Gpu& gpu) {
  return {{"number", gpu.facts.ordinal},
          {"name", gpu.facts.name},
          {"memory_bytes", gpu.facts.memory_bytes},
          {"pci", gpu.facts.pci_bus_id},
          {"uuid", gpu.facts.uuid},
          {"numa_node", gpu.numa_node},
          {"interface", gpu.interface},
          {"nearness", gpu.nearness}};
}

std::optional<TakenGpu> gpu_of_this_rank(const device::Driver& driver, const Gpus& gpus) {
  const auto rendezvous = rendezvous_from_environment();
  if (gpus.list.empty() || !rendezvous.ok() || !rendezvous->local_rank) {
    return std::nullopt;
  }
  const uint32_t local_rank = *rendezvous->local_rank;
  const auto device = device::device_of_local_rank(driver, local_rank);
  if (!device.ok()) {
    return std::nullopt;
  }
  std::string text = fmt::format(
      "this rank (local rank {}) takes GPU {} of {}", local_rank, *device, gpus.list.size());
  if (const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    text += fmt::format(" (CUDA_VISIBLE_DEVICES={})", visible);
  }
  if (local_rank >= gpus.list.size()) {
    text += fmt::format("; local rank {} may take it too", *device);
  }
  return TakenGpu{local_rank, *device, std::move(text)};
}

}  // namespace ho
