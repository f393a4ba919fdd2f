// What the perf programs and plugin_perf measure, and nccl-tests' figures of it. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace ho::harness {

enum class Collective : uint8_t { kAllGather, kReduceScatter, kAllReduce };

[[nodiscard]] std::string_view to_string(Collective collective);  // "all_gather"
// nccl-tests' factor from algorithm to bus bandwidth.
[[nodiscard]] double bus_factor(Collective collective, uint32_t world_size);
// Bytes that must cross the boundary of the busiest node in one direction.
[[nodiscard]] double boundary_bytes(Collective collective,
                                    double size_bytes,
                                    const std::vector<uint32_t>& group_sizes);

}  // namespace ho::harness
