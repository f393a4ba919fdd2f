#include "tuner/common.hpp"

#include <memory>

#include "abi/tuner_v3.hpp"
#include "adapter/host_log.hpp"
#include "core/tuner/cost_table.hpp"

namespace ho::plugin::every_tuner {

using nccl_abi::Function;
using nccl_abi::Result;

namespace {

// Nothing for a collective that CollNet does not do.
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

// Where there is one: NCCL passes what init() gave out.
const Tuner* tuner_of(void* context) {
  return static_cast<const Tuner*>(context);
}

uint32_t operation_count(int operations) {
  return operations < 1 ? 1U : static_cast<uint32_t>(operations);
}

}  // namespace

Result init(int version,
            nccl_abi::DebugLogger logger,
            const CommunicatorShape& shape,
            std::optional<uint64_t> communicator,
            void** context) {
  return guarded([&] {
    *context = nullptr;
    auto made = Plugin::instance().make_tuner(
        "tuner v" + std::to_string(version), log_of(logger), shape, communicator);
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

Result get_coll_info(void* context,
                     Function function,
                     size_t bytes,
                     int collnet_support,
                     int nvls_support,
                     int operations,
                     int* algorithm,
                     int* protocol,
                     int* /*channels*/) {
  const Tuner* const tuner = tuner_of(context);
  const auto collective = collective_of(function);
  if (tuner == nullptr || !collective) {
    return Result::kSuccess;
  }
  const Call call{*collective, bytes, operation_count(operations)};
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

Result get_coll_info(void* context,
                     Function function,
                     size_t bytes,
                     int operations,
                     float** costs,
                     int algorithms,
                     int protocols,
                     int* channels) {
  return get_coll_info(
      context, function, bytes, operations, costs, algorithms, protocols, 0, channels);
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
  const Tuner* const tuner = tuner_of(context);
  const auto collective = collective_of(function);
  // One block, whatever its type says: see v3::cost_of().
  const auto table = CostTable::of(reinterpret_cast<float*>(costs), algorithms, protocols);
  if (tuner != nullptr && collective && table) {
    (void)tuner->apply({*collective, bytes, operation_count(operations), registered != 0}, *table);
  }
  return Result::kSuccess;
}

Result get_chunk_size(void* context,
                      Function function,
                      size_t bytes,
                      int algorithm,
                      int /*protocol*/,
                      int channels,
                      size_t* chunk_size) {
  const Tuner* const tuner = tuner_of(context);
  const auto collective = collective_of(function);
  if (tuner != nullptr && collective && channels > 0) {
    *chunk_size = tuner->chunk_bytes({*collective,
                                      choice_of_algorithm(algorithm),
                                      bytes,
                                      static_cast<uint32_t>(channels),
                                      *chunk_size});
  }
  return Result::kSuccess;
}

}  // namespace ho::plugin::every_tuner
