#include "tuner/common.hpp"

#include <memory>

#include "abi/tuner_v3.hpp"
#include "adapter/host_log.hpp"

namespace ho::plugin::every_tuner {

using nccl_abi::Function;
using nccl_abi::Result;

Result init(const char* interface,
            nccl_abi::DebugLogger logger,
            const CommunicatorShape& shape,
            std::optional<uint64_t> communicator,
            void** context) {
  return guarded([&] {
    *context = nullptr;
    auto made = Plugin::instance().make_tuner(interface, log_of(logger), shape, communicator);
    if (!made.ok()) {
      return reply_of(made.status().code());
    }
    *context = (*std::move(made)).release();
    return Reply::kSuccess;
  });
}

Result destroy(void* context) {
  const std::unique_ptr<const Tuner> owned(tuner_of(context));
  return Result::kSuccess;
}

std::optional<TunedCollective> collective_of(Function function) {
  switch (function) {
    case Function::kAllReduce:
      return TunedCollective::kAllReduce;
    case Function::kAllGather:
      return TunedCollective::kAllGather;
    case Function::kReduceScatter:
      return TunedCollective::kReduceScatter;
    default:
      return std::nullopt;
  }
}

const Tuner* tuner_of(void* context) {
  return static_cast<const Tuner*>(context);
}

uint32_t operation_count(int operations) {
  return operations < 1 ? 1U : static_cast<uint32_t>(operations);
}

Result answer(void* context,
              Function function,
              size_t bytes,
              int operations,
              float** costs,
              int algorithms,
              int protocols,
              bool registered) {
  const Tuner* const tuner = tuner_of(context);
  const auto collective = collective_of(function);
  // One block, whatever its type says: see v3::cost_of().
  const auto table = CostTable::of(reinterpret_cast<float*>(costs), algorithms, protocols);
  if (tuner != nullptr && collective && table) {
    (void)tuner->apply({*collective, bytes, operation_count(operations), registered}, *table);
  }
  return Result::kSuccess;
}

Result get_coll_info(void* context,
                     Function function,
                     size_t bytes,
                     int operations,
                     float** costs,
                     int algorithms,
                     int protocols,
                     int registered,
                     int* /*channels*/) {
  return answer(
      context, function, bytes, operations, costs, algorithms, protocols, registered != 0);
}

}  // namespace ho::plugin::every_tuner
