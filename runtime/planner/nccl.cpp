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

double step_s(const ho::cost::Level& simple) {
  return simple.network == "nvlink" ? kNvlinkStepS
         : simple.network == "pcie" ? kPciStepS
                                    : simple.latency_s - kNetworkSavesS;
}

ho::cost::Level with_ll128(ho::cost::Level level) {
  std::vector<ho::cost::LinearTable::Point> points = level.share_of_bytes.points();
  for (ho::cost::LinearTable::Point& point : points) {
    point.y *= kShare;
  }
  level.share_of_bytes = ho::cost::LinearTable(std::move(points));
  level.latency_s = step_s(level);
  level.start_s = kStartS;
  return level;
}

// NCCL's other networks have what they take more than InfiniBand for trees too.
double tree_step_s(const TreeSteps& steps, const ho::cost::Level& ring) {
  constexpr double kRingOverNetworkS = 14e-6;
  return ring.network == "nvlink" ? steps.nvlink_s
         : ring.network == "pcie" ? steps.pci_s
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

ho::cost::Level with_simple_tree(const ho::cost::Level& ring) {
  return of_tree(ring, tree_step_s(kSimpleTree, ring), kTreeShare, kSimpleCorrections);
}

ho::cost::Level with_ll128_tree(const ho::cost::Level& ring) {
  ho::cost::Level level =
      of_tree(ring, tree_step_s(kLl128Tree, ring), kTreeShare * kLl128OfTree, kLl128Corrections);
  level.start_s = kStartS;
  return level;
}

// Channels spread over the NICs of a GPU that has several (four of EFA on a P5): as one.
ho::cost::Cluster with_joined_nics(ho::cost::Cluster levels) {
  double gpus = 1;
  for (size_t at = 1; at < levels.size(); ++at) {
    gpus *= levels[at - 1].size;
    const double of_gpu = std::max(1.0, levels[at].nics / gpus);
    levels[at].rate *= of_gpu;
    levels[at].nics /= of_gpu;
  }
  return levels;
}

// Over a level of one nothing moves: it may have no network.
template <typename As>
ho::cost::Cluster each_as(As as, const ho::cost::Cluster& rings) {
  ho::cost::Cluster levels;
  for (const ho::cost::Level& ring : rings) {
    levels.push_back(ring.size > 1 ? as(ring) : ring);
  }
  return levels;
}

NcclLinks links_of(const ho::cost::Cluster& rings) {
  NcclLinks links{{rings, each_as(with_ll128, rings)}, {}};
  if (rings.front().size < rank_count(rings)) {  // else the rings are of the same links
    links.trees = {each_as(with_simple_tree, rings), each_as(with_ll128_tree, rings)};
  }
  return links;
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

ho::Result<NcclLinks> nccl_links(const GpuCluster& gpus) {
  HORING_ASSIGN(const ho::cost::Level node,
                level_of("node", gpus.gpus_per_node, gpus.gpu_bytes_per_s, 1, gpus.inside));
  HORING_ASSIGN(const ho::cost::Level all,
                level_of("network", gpus.nodes, gpus.nic_bytes_per_s, gpus.nics, gpus.network));
  const ho::cost::Cluster rings = with_joined_nics({node, all});
  HORING_TRY(ho::cost::check(rings));
  return links_of(rings);
}

NcclLinks nccl_links(const ho::cost::Cluster& levels) {
  const auto is_measured = [](const ho::cost::Level& level) {
    return level.size > 1 && level.network.empty();
  };
  if (std::any_of(levels.begin(), levels.end(), is_measured)) {
    return {{}, {levels}};  // they are what collectives have been measured to take
  }
  return links_of(with_joined_nics(levels));
}

}  // namespace paro
