#include "comm/shared_devices.hpp"

#include <spdlog/fmt/fmt.h>

#include <map>
#include <utility>

#include "bootstrap/messages/rank_names.hpp"

namespace ho {

std::vector<SharedDevice> shared_devices(std::span<const RankInfo> infos) {
  std::map<std::pair<std::string, std::string>, std::vector<uint32_t>> ranks_of;
  for (uint32_t rank = 0; rank < infos.size(); ++rank) {
    if (infos[rank].device) {
      ranks_of[{infos[rank].host_id, infos[rank].device->uuid}].push_back(rank);
    }
  }
  std::vector<SharedDevice> shared;
  for (auto& [device, ranks] : ranks_of) {
    if (ranks.size() < 2) {
      continue;
    }
    const RankInfo& first = infos[ranks.front()];
    std::string warning = fmt::format(
        "{} share GPU {} on {}: their copies and sums take turns; set LOCAL_RANK or "
        "CUDA_VISIBLE_DEVICES per rank",
        rank_list(ranks),
        first.device->pci,
        first.host_name);
    shared.push_back({std::move(ranks), std::move(warning)});
  }
  return shared;
}

}  // namespace ho
