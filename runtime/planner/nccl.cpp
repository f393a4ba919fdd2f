#include "planner/nccl.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
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

// The same file, of a tree: its steps over NVLink, PCI and a network with SIMPLE and with LL128;
// all of them start as rings do.
struct TreeSteps {
  double nvlink_s, pci_s, network_s;
};
constexpr TreeSteps kSimpleTree{4.0e-6, 4.0e-6, 14e-6};
constexpr TreeSteps kLl128Tree{1.25e-6, 1.9e-6, 8.5e-6};
// What NCCL counts of a tree's rate, and of that with LL128 (120 bytes of 128).
constexpr double kTreeShare = 0.92;
constexpr double kLl128OfTree = 120.0 / 128;

// Of that rate, what NCCL corrects it to by the bytes of an all-reduce: from 64 on each time twice
// as many, and from 512 MiB on all of it. A message of the model is half of them, a tree's part.
constexpr double kMinTreeMessage = 32;
using Corrections = std::array<double, 24>;
constexpr Corrections kSimpleCorrections{0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5,
                                         0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9, 1};
constexpr Corrections kLl128Corrections{1,   1,   1,   1,   1,   0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6,
                                        0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1,   1,   1};

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

// NCCL's other networks have what they take more than InfiniBand for trees too.
double tree_step_s(const TreeSteps& steps, const ho::cost::Level& ring, std::string_view network) {
  constexpr double kRingOverNetworkS = 14e-6;
  return network == "nvlink" ? steps.nvlink_s
         : network == "pcie" ? steps.pci_s
                             : ring.latency_s - kRingOverNetworkS + steps.network_s;
}

// A ring's level with SIMPLE, as a tree has it.
ho::cost::Level of_tree(ho::cost::Level level,
                        double latency_s,
                        double share,
                        const Corrections& corrections) {
  const double of_link = level.share_of_bytes.points().back().y;
  std::vector<ho::cost::LinearTable::Point> points;
  double message = kMinTreeMessage;
  for (const double correction : corrections) {
    points.push_back({message, of_link * share * correction});
    message *= 2;
  }
  level.share_of_bytes = ho::cost::LinearTable(std::move(points));
  level.latency_s = latency_s;
  return level;
}

ho::cost::Level with_simple_tree(const ho::cost::Level& ring, std::string_view network) {
  return of_tree(ring, tree_step_s(kSimpleTree, ring, network), kTreeShare, kSimpleCorrections);
}

ho::cost::Level with_ll128_tree(const ho::cost::Level& ring, std::string_view network) {
  ho::cost::Level level = of_tree(
      ring, tree_step_s(kLl128Tree, ring, network), kTreeShare * kLl128OfTree, kLl128Corrections);
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

// Of rings with SIMPLE.
ho::Result<ho::cost::Cluster> simple_rings(const GpuCluster& gpus) {
  HORING_ASSIGN(const ho::cost::Level node,
                level_of("node", gpus.gpus_per_node, gpus.gpu_bytes_per_s, 1, gpus.inside));
  // Channels spread over the NICs of a GPU that has several (four of EFA on a P5): as one.
  const double of_gpu = std::max(1.0, gpus.nics / gpus.gpus_per_node);
  HORING_ASSIGN(
      const ho::cost::Level all,
      level_of(
          "network", gpus.nodes, gpus.nic_bytes_per_s * of_gpu, gpus.nics / of_gpu, gpus.network));
  ho::cost::Cluster cluster{node, all};
  HORING_TRY(ho::cost::check(cluster));
  return cluster;
}

}  // namespace

ho::Result<std::vector<ho::cost::Cluster>> nccl_protocols(const GpuCluster& gpus) {
  HORING_ASSIGN(const ho::cost::Cluster rings, simple_rings(gpus));
  return std::vector<ho::cost::Cluster>{
      rings, {with_ll128(rings[0], gpus.inside), with_ll128(rings[1], gpus.network)}};
}

ho::Result<std::vector<ho::cost::Cluster>> nccl_trees(const GpuCluster& gpus) {
  HORING_ASSIGN(const ho::cost::Cluster rings, simple_rings(gpus));
  if (gpus.nodes == 1) {
    return std::vector<ho::cost::Cluster>();
  }
  return std::vector<ho::cost::Cluster>{
      {with_simple_tree(rings[0], gpus.inside), with_simple_tree(rings[1], gpus.network)},
      {with_ll128_tree(rings[0], gpus.inside), with_ll128_tree(rings[1], gpus.network)}};
}

}  // namespace paro
