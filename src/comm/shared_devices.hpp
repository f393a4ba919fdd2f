// Ranks that were given the same device, which costs them time and is seldom meant.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "topo/rank_info.hpp"

namespace ho {

struct SharedDevice {
  std::vector<uint32_t> ranks;  // of one host, ascending, at least two
  std::string warning;
};

// infos[r] is rank r's. By UUID: slices of one GPU are devices of their own. Pure.
[[nodiscard]] std::vector<SharedDevice> shared_devices(std::span<const RankInfo> infos);

}  // namespace ho
