// NCCL 2.30: the tuner is asked for chunk sizes.
#include "abi/tuner_v6.hpp"

#include "core/tuner/cost_table.hpp"
#include "tuner/common.hpp"

namespace ho::plugin {
namespace {

using nccl_abi::DebugLogger;
using nccl_abi::Function;
using nccl_abi::Result;
using nccl_abi::v6::NvlDomainInfo;
using nccl_abi::v6::Tuner;
using nccl_abi::v6::TunerConstants;

Result init(void** context,
            uint64_t communicator,
            size_t ranks,
            size_t nodes,
            DebugLogger logger,
            NvlDomainInfo* domains,
            TunerConstants* /*constants*/) {
  CommunicatorShape shape = every_tuner::shape_of(ranks, nodes, domains);
  shape.asks_chunk_sizes = true;
  return every_tuner::init("tuner v6", logger, shape, communicator, context);
}

Result get_chunk_size(void* context,
                      Function function,
                      size_t bytes,
                      int algorithm,
                      int /*protocol*/,
                      int channels,
                      size_t* chunk_size) {
  const auto* const tuner = every_tuner::tuner_of(context);
  const auto collective = every_tuner::collective_of(function);
  if (tuner != nullptr && collective && channels > 0) {
    *chunk_size = tuner->chunk_bytes({*collective,
                                      choice_of_algorithm(algorithm),
                                      bytes,
                                      static_cast<uint32_t>(channels),
                                      *chunk_size});
  }
  return Result::kSuccess;
}

constexpr Tuner make_table() {
  Tuner table{};
  table.name = kNetName;
  table.init = init;
  table.getCollInfo = every_tuner::get_coll_info;
  table.finalize = every_tuner::destroy;
  table.getChunkSize = get_chunk_size;
  return table;
}

}  // namespace
}  // namespace ho::plugin

extern "C" __attribute__((visibility("default"))) nccl_abi::v6::Tuner ncclTunerPlugin_v6;
constinit nccl_abi::v6::Tuner ncclTunerPlugin_v6 = ho::plugin::make_table();
