#include "planner/nccl.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "cost/networks.hpp"

namespace paro {
namespace {

// github.com/NVIDIA/nccl at 5067397c (2026-06-11), src/graph/tuning.cc, of a ring with LL128: its
// base latency, and its steps over NVLink, PCI and a network, where those of SIMPLE take 3.4, 5.7
// and 14 us; it sends 120 bytes of 128, which NCCL counts as 0.92.
constexpr double kStartS = 14e-6;
constexpr double kNvlinkStepS = 1.9e-6;
constexpr double kPciStepS = 2.5e-6;
constexpr double kNetworkSavesS = 10e-6;
constexpr double kShare = 0.92;

double step_s(const ho::cost::Level& simple, std::string_view network) {
  return network == "nvlink" ? kNvlinkStepS
         : network == "pcie" ? kPciStepS
                             : simple.latency_s - kNetworkSavesS;
}

ho::cost::Level with_ll128(ho::cost::Level level, std::string_view network) {
  std::vector<ho::cost::LinearTable::Point> points = level.share_of_bytes.points();
  for (ho::cost::LinearTable::Point& point : points) {
    point.y *= kShare;
  }
  level.share_of_bytes = ho::cost::LinearTable(std::move(points));
  level.latency_s = step_s(level, network);
  level.start_s = kStartS;
  return level;
}

ho::Result<ho::cost::Level> level_of(
    std::string name, uint32_t size, double rate, double nics, std::string_view network) {
  const ho::cost::Network* const found = ho::cost::find_network(network);
  if (found == nullptr) {
    return ho::invalid(fmt::format("network {}: is not known", network));
  }
  ho::cost::Level level;
  level.name = std::move(name);
  level.size = size;
  level.rate = rate;
  level.nics = nics;
  return ho::cost::with_defaults(std::move(level), *found);
}

}  // namespace

ho::Result<std::vector<ho::cost::Cluster>> nccl_protocols(const GpuCluster& gpus) {
  HORING_ASSIGN(const ho::cost::Level node,
                level_of("node", gpus.gpus_per_node, gpus.gpu_bytes_per_s, 1, gpus.inside));
  // Channels spread over the NICs of a GPU that has several (four of EFA on a P5): as one.
  const double of_gpu = std::max(1.0, gpus.nics / gpus.gpus_per_node);
  HORING_ASSIGN(
      const ho::cost::Level all,
      level_of(
          "network", gpus.nodes, gpus.nic_bytes_per_s * of_gpu, gpus.nics / of_gpu, gpus.network));
  std::vector<ho::cost::Cluster> protocols{
      {node, all}, {with_ll128(node, gpus.inside), with_ll128(all, gpus.network)}};
  for (const ho::cost::Cluster& cluster : protocols) {
    HORING_TRY(ho::cost::check(cluster));
  }
  return protocols;
}

}  // namespace paro
