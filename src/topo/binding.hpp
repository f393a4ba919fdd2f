// Which CPUs the progress thread should run on.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "topo/topology.hpp"

namespace ho {

// "4-7,9" to {4, 5, 6, 7, 9}, sorted, each once. At most CPU 65535.
[[nodiscard]] Result<std::vector<uint32_t>> parse_cpu_list(std::string_view text);

// `setting` is HORING_PROGRESS_CPU: "none"; "auto": the allowed CPUs of the NIC's NUMA node, on
// machines with several; or a CPU list, all of it allowed. Empty result: leave the thread alone.
// Pure.
[[nodiscard]] Result<std::vector<uint32_t>> progress_cpus(std::string_view setting,
                                                          std::span<const NumaNode> nodes,
                                                          int32_t nic_numa_node,
                                                          std::span<const uint32_t> allowed);

}  // namespace ho
