// The GPUs that a process sees, where they are on its host, and which NIC goes with each.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "device/device.hpp"
#include "topo/filter.hpp"
#include "topo/topology.hpp"

namespace ho {

struct Gpu {
  device::DeviceFacts facts;
  int32_t numa_node = -1;
  // Of a rank for each of these GPUs, as a job assigns them; "" where the host has none.
  std::string interface;
  std::string nearness;  // "same PCIe switch", "any: no PCI path known"
};

struct Gpus {
  std::string driver;  // "550.54.15, CUDA 12.4"
  std::vector<Gpu> list;
  std::string why_none;  // where the list is empty: one line
};

// `driver` is device::driver()'s answer; an error becomes why_none.
[[nodiscard]] Gpus find_gpus(const Result<const device::Driver*>& driver,
                             const Topology& topology,
                             const InterfaceFilter& filter);

[[nodiscard]] nlohmann::ordered_json to_json(const Gpu& gpu);
// "NVIDIA H100 80GB HBM3, 79.6 GiB, 0000:3b:00.0, NUMA 0, NIC eth2 (same PCIe switch)"
[[nodiscard]] std::string to_string(const Gpu& gpu);
[[nodiscard]] std::string gib_text(size_t bytes);  // "79.6"

// Which of the GPUs the rank of this process would take, by the launcher's local rank.
struct TakenGpu {
  uint32_t local_rank = 0;
  int device = 0;
  std::string text;  // "this rank (local rank 3) takes GPU 3 of 8"
};
// Nothing where there is no GPU, or no launcher that says the local rank.
[[nodiscard]] std::optional<TakenGpu> gpu_of_this_rank(const device::Driver& driver,
                                                       const Gpus& gpus);

}  // namespace ho
