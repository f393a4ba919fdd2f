// NCCL 2.28: the tuner hears which communicator it is for, and of its nodes. NCCL's constants stay
// as they are.
#include "abi/tuner_v5.hpp"

#include "tuner/common.hpp"

namespace ho::plugin {
namespace {

using nccl_abi::DebugLogger;
using nccl_abi::Result;
using nccl_abi::v5::NvlDomainInfo;
using nccl_abi::v5::Tuner;
using nccl_abi::v5::TunerConstants;

Result init(void** context,
            uint64_t communicator,
            size_t ranks,
            size_t nodes,
            DebugLogger logger,
            NvlDomainInfo* domains,
            TunerConstants* /*constants*/) {
  return every_tuner::init(
      "tuner v5", logger, every_tuner::shape_of(ranks, nodes, domains), communicator, context);
}

constexpr Tuner make_table() {
  Tuner table{};
  table.name = kNetName;
  table.init = init;
  table.getCollInfo = every_tuner::get_coll_info;
  table.finalize = every_tuner::destroy;
  return table;
}

}  // namespace
}  // namespace ho::plugin

extern "C" __attribute__((visibility("default"))) nccl_abi::v5::Tuner ncclTunerPlugin_v5;
constinit nccl_abi::v5::Tuner ncclTunerPlugin_v5 = ho::plugin::make_table();
