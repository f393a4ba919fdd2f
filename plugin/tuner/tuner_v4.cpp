// NCCL 2.24: the tuner hears of registered buffers.
#include "abi/tuner_v4.hpp"

#include "tuner/common.hpp"

namespace ho::plugin {
namespace {

using nccl_abi::DebugLogger;
using nccl_abi::Result;
using nccl_abi::v4::Tuner;

Result init(size_t ranks, size_t nodes, DebugLogger logger, void** context) {
  return every_tuner::init("tuner v4", logger, {ranks, nodes, {}}, std::nullopt, context);
}

constexpr Tuner make_table() {
  Tuner table{};
  table.name = kNetName;
  table.init = init;
  table.getCollInfo = every_tuner::get_coll_info;
  table.destroy = every_tuner::destroy;
  return table;
}

}  // namespace
}  // namespace ho::plugin

extern "C" __attribute__((visibility("default"))) nccl_abi::v4::Tuner ncclTunerPlugin_v4;
constinit nccl_abi::v4::Tuner ncclTunerPlugin_v4 = ho::plugin::make_table();
