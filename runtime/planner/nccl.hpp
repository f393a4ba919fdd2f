// A cluster as NCCL's protocols see it. Pure.
//
// NCCL moves large messages by SIMPLE or by LL128, whose steps take less and whose bytes take more,
// and takes whichever its own model finds faster. So a cluster is one for each of them, and a
// collective takes the faster one. All-reduces go by rings or by trees, whichever is faster.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "cost/cluster.hpp"

namespace paro {

struct GpuCluster {
  uint32_t nodes = 1;
  uint32_t gpus_per_node = 8;
  double gpu_bytes_per_s = 0;          // that is printed on a GPU's links, one direction
  std::string inside = "nvlink";       // or "pcie"
  double nics = 1;                     // of a node; a GPU uses all of its own
  double nic_bytes_per_s = 0;          // that is printed on one
  std::string network = "infiniband";  // a name of cost/networks.hpp
};

struct NcclLinks {
  std::vector<ho::cost::Cluster> protocols;  // SIMPLE, LL128
  std::vector<ho::cost::Cluster> trees;      // the same as these see them; none on one node
};
// An error for a network that is not known, or numbers that cannot be.
[[nodiscard]] ho::Result<NcclLinks> nccl_links(const GpuCluster& gpus);
// Of levels that have what is known of networks by name. Of others no protocols, and trees on the
// levels as they are.
[[nodiscard]] NcclLinks nccl_links(const ho::cost::Cluster& levels);

}  // namespace paro
