// What the tuner adapters of all versions have in common.
//
// NCCL gives up a communicator whose tuner answers a question with an error, so that none does:
// what cannot be answered is left as NCCL has it.
#pragma once

#include <cstdint>
#include <optional>

#include "abi/calls.hpp"
#include "abi/common.hpp"
#include "adapter/boundary.hpp"
#include "core/tuner/basis.hpp"
#include "core/tuner/tuner.hpp"

namespace ho::plugin {
namespace every_tuner {

nccl_abi::Result init(int version,
                      nccl_abi::DebugLogger logger,
                      const CommunicatorShape& shape,
                      std::optional<uint64_t> communicator,
                      void** context);
nccl_abi::Result destroy(void* context);

// In v2: no table; what is named is taken as it is.
nccl_abi::Result get_coll_info(void* context,
                               nccl_abi::Function function,
                               size_t bytes,
                               int collnet_support,
                               int nvls_support,
                               int operations,
                               int* algorithm,
                               int* protocol,
                               int* channels);
// In v3: edits NCCL's table of costs.
nccl_abi::Result get_coll_info(void* context,
                               nccl_abi::Function function,
                               size_t bytes,
                               int operations,
                               float** costs,
                               int algorithms,
                               int protocols,
                               int* channels);
nccl_abi::CostsInfo get_coll_info;  // since v4: hears of registered buffers
nccl_abi::Result get_chunk_size(void* context,
                                nccl_abi::Function function,
                                size_t bytes,
                                int algorithm,
                                int protocol,
                                int channels,
                                size_t* chunk_size);

// Since v5: what NCCL passes of a communicator's nodes.
template <typename Domains>
CommunicatorShape shape_of(size_t ranks, size_t nodes, const Domains* domains) {
  CommunicatorShape shape;
  shape.ranks = ranks;
  shape.nodes = nodes;
  // NVLink domains are nodes, as far as is known; if the numbers differ, they do not describe
  // nodes.
  if (domains != nullptr && domains->nNvlDomains >= 0 && domains->minRanksPerNvlDomain > 0 &&
      domains->maxRanksPerNvlDomain > 0 && static_cast<size_t>(domains->nNvlDomains) == nodes) {
    shape.local = {static_cast<uint64_t>(domains->minRanksPerNvlDomain),
                   static_cast<uint64_t>(domains->maxRanksPerNvlDomain)};
  }
  return shape;
}

}  // namespace every_tuner

// init() of the table of that version.
template <int version, bool asks_chunk_sizes>
struct TunerInit {
  static nccl_abi::Result init(size_t ranks,
                               size_t nodes,
                               nccl_abi::DebugLogger logger,
                               void** context) {
    return every_tuner::init(version, logger, {ranks, nodes, {}}, std::nullopt, context);
  }
  // NCCL's constants are neither read nor written: before 2.32.3 they came uninitialized.
  template <typename Domains, typename Constants>
  static nccl_abi::Result init(void** context,
                               uint64_t communicator,
                               size_t ranks,
                               size_t nodes,
                               nccl_abi::DebugLogger logger,
                               Domains* domains,
                               Constants* /*constants*/) {
    CommunicatorShape shape = every_tuner::shape_of(ranks, nodes, domains);
    shape.asks_chunk_sizes = asks_chunk_sizes;
    return every_tuner::init(version, logger, shape, communicator, context);
  }
};

template <typename Table, int version>
consteval Table tuner_table() {
  Table made{};
  made.name = kNetName;
  made.init = TunerInit < version, requires {
    made.getChunkSize;
  }
  > ::init;
  made.getCollInfo = every_tuner::get_coll_info;
  if constexpr (requires { made.finalize; }) {
    made.finalize = every_tuner::destroy;
  } else {
    made.destroy = every_tuner::destroy;
  }
  if constexpr (requires { made.getChunkSize; }) {
    made.getChunkSize = every_tuner::get_chunk_size;
  }
  return made;
}

}  // namespace ho::plugin
