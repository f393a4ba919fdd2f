// What the tuner adapters of all versions do alike.
//
// NCCL gives up a communicator whose tuner answers a question with an error, so that none does:
// what cannot be answered is left as NCCL has it.
#pragma once

#include <cstdint>
#include <optional>

#include "abi/common.hpp"
#include "adapter/boundary.hpp"
#include "core/tuner/basis.hpp"
#include "core/tuner/tuner.hpp"

namespace ho::plugin::every_tuner {

nccl_abi::Result init(const char* interface,
                      nccl_abi::DebugLogger logger,
                      const CommunicatorShape& shape,
                      std::optional<uint64_t> communicator,
                      void** context);
nccl_abi::Result destroy(void* context);

// Nothing for a collective that CollNet does not do.
std::optional<TunedCollective> collective_of(nccl_abi::Function function);
// Where there is one: NCCL passes what init() gave out.
const Tuner* tuner_of(void* context);
uint32_t operation_count(int operations);

// Since v3: edits the table.
nccl_abi::Result answer(void* context,
                        nccl_abi::Function function,
                        size_t bytes,
                        int operations,
                        float** costs,
                        int algorithms,
                        int protocols,
                        bool registered);
// Since v4.
nccl_abi::Result get_coll_info(void* context,
                               nccl_abi::Function function,
                               size_t bytes,
                               int operations,
                               float** costs,
                               int algorithms,
                               int protocols,
                               int registered,
                               int* channels);

// Since v5: what NCCL tells of a communicator's nodes.
template <typename Domains>
CommunicatorShape shape_of(size_t ranks, size_t nodes, const Domains* domains) {
  CommunicatorShape shape;
  shape.ranks = ranks;
  shape.nodes = nodes;
  // NVLink domains are nodes, as far as anybody knows; what is not, does not tell of nodes.
  if (domains != nullptr && domains->nNvlDomains >= 0 && domains->minRanksPerNvlDomain > 0 &&
      domains->maxRanksPerNvlDomain > 0 && static_cast<size_t>(domains->nNvlDomains) == nodes) {
    shape.local = {static_cast<uint64_t>(domains->minRanksPerNvlDomain),
                   static_cast<uint64_t>(domains->maxRanksPerNvlDomain)};
  }
  return shape;
}

}  // namespace ho::plugin::every_tuner
