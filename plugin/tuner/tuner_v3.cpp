// NCCL 2.22: the tuner edits NCCL's table of costs.
#include "abi/tuner_v3.hpp"

#include "tuner/common.hpp"

namespace ho::plugin {
namespace {

using nccl_abi::DebugLogger;
using nccl_abi::Function;
using nccl_abi::Result;
using nccl_abi::v3::Tuner;

Result init(size_t ranks, size_t nodes, DebugLogger logger, void** context) {
  return every_tuner::init("tuner v3", logger, {ranks, nodes, {}}, std::nullopt, context);
}

Result get_coll_info(void* context,
                     Function function,
                     size_t bytes,
                     int operations,
                     float** costs,
                     int algorithms,
                     int protocols,
                     int* /*channels*/) {
  return every_tuner::answer(
      context, function, bytes, operations, costs, algorithms, protocols, false);
}

constexpr Tuner make_table() {
  Tuner table{};
  table.name = kNetName;
  table.init = init;
  table.getCollInfo = get_coll_info;
  table.destroy = every_tuner::destroy;
  return table;
}

}  // namespace
}  // namespace ho::plugin

extern "C" __attribute__((visibility("default"))) nccl_abi::v3::Tuner ncclTunerPlugin_v3;
constinit nccl_abi::v3::Tuner ncclTunerPlugin_v3 = ho::plugin::make_table();
