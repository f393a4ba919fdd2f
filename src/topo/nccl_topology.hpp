// NCCL's topology files: what NCCL_TOPO_FILE takes and NCCL_TOPO_DUMP_FILE writes, and what clouds
// deliver for their machines.
//
// <system> has a <cpu> per NUMA node, and these the PCI tree as nested <pci>. A GPU is a <pci> with
// a <gpu> in it, or one of a display class; a NIC is a <net>, under the <pci> of its card, or a
// <pci> of a network class, which then goes by its PCI name. Everything else in them is passed
// over.
#pragma once

#include <string>
#include <string_view>

#include "base/status.hpp"
#include "topo/topology.hpp"

namespace ho {

// All but source, host name and identity. The error names the line.
[[nodiscard]] Result<Topology> read_nccl_topology(std::string_view text);

}  // namespace ho
