// NCCL 2.21: no table; what is named is taken as it is.
#include "abi/tuner_v2.hpp"

#include "core/tuner/cost_table.hpp"
#include "tuner/common.hpp"

namespace ho::plugin {
namespace {

using nccl_abi::DebugLogger;
using nccl_abi::Function;
using nccl_abi::Result;
using nccl_abi::v2::Tuner;

Result init(size_t ranks, size_t nodes, DebugLogger logger, void** context) {
  return every_tuner::init("tuner v2", logger, {ranks, nodes, {}}, std::nullopt, context);
}

Result get_coll_info(void* context,
                     Function function,
                     size_t bytes,
                     int collnet_support,
                     int nvls_support,
                     int operations,
                     int* algorithm,
                     int* protocol,
                     int* /*channels*/) {
  const auto* const tuner = every_tuner::tuner_of(context);
  const auto collective = every_tuner::collective_of(function);
  if (tuner == nullptr || !collective) {
    return Result::kSuccess;
  }
  const Call call{*collective, bytes, every_tuner::operation_count(operations)};
  const Choices allowed =
      allowed_by_support(tuner->inputs(), *collective, collnet_support != 0, nvls_support != 0);
  const Choice choice = tuner->choose(call, allowed);
  if (choice == Choice::kOwn) {
    // NCCL takes what is named even where the user excluded it, and without CollNet its own choice
    // is the same.
    const OwnAlgorithm own = tuner->best_own(call, allowed);
    const bool names = collnet_support != 0 && tuner->inputs().algorithms_filtered == 0 &&
                       own.choice != Choice::kDefault;
    if (names) {
      *algorithm = nccl_algorithm(own.choice);
      *protocol = own.low_latency ? nccl_abi::kProtocolLl : nccl_abi::kProtocolSimple;
    }
  } else if (choice != Choice::kDefault) {
    *algorithm = nccl_algorithm(choice);
    *protocol = nccl_abi::kProtocolSimple;
  }
  return Result::kSuccess;
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

extern "C" __attribute__((visibility("default"))) nccl_abi::v2::Tuner ncclTunerPlugin_v2;
constinit nccl_abi::v2::Tuner ncclTunerPlugin_v2 = ho::plugin::make_table();
