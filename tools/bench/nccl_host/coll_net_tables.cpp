#include <limits>

#include "bench/nccl_host/properties.hpp"

namespace ho::nccl_host {
namespace {

using nccl_abi::DataType;
using nccl_abi::DebugLogger;
using nccl_abi::ReduceOp;
using nccl_abi::Result;
using Buffer = CollNetTable::Buffer;
using Reduction = CollNetTable::Reduction;
using Window = CollNetTable::Window;

template <typename Version>
class CollNetOf final : public TableOf<Version, CollNetTable> {
 public:
  using Part = std::conditional_t<(Version::value < 9), nccl_abi::v8::Buffer, nccl_abi::v9::Buffer>;
  using TableOf<Version, CollNetTable>::TableOf;

  Result init(void** context, uint64_t comm_id, DebugLogger logger) override {
    *context = nullptr;
    if constexpr (kVersion >= 11) {
      return table_->init(context, comm_id, logger);
    } else {
      return table_->init(logger);
    }
  }
  Result connect(void** handles, int ranks, int rank, void* listener, void** group) override {
    return table_->connect(handles, ranks, rank, listener, group);
  }
  Result reduce_support(const Reduction& reduction, int* supported) override {
    return table_->reduceSupport(type_of(reduction), op_of(reduction), supported);
  }
  Result iallreduce(void* group,
                    const Buffer& from,
                    const Buffer& to,
                    size_t count,
                    const Reduction& reduction,
                    void** request) override {
    // The shim of v8 refuses what its int does not hold.
    if (kVersion == 8 && count > static_cast<size_t>(std::numeric_limits<int>::max())) {
      return Result::kInternalError;
    }
    using Count = std::conditional_t<kVersion == 8, int, size_t>;
    return table_->iallreduce(group,
                              from.data,
                              to.data,
                              static_cast<Count>(count),
                              type_of(reduction),
                              op_of(reduction),
                              from.memory,
                              to.memory,
                              request);
  }
  Result iallgather(void* group,
                    const Buffer& from,
                    const Buffer& to,
                    const Window& window,
                    void** request) override {
    Part part = part_of(to, window);
    return table_->iallgather(group,
                              from.data,
                              1,
                              &part,
                              window.bytes_per_rank,
                              window.offset,
                              window.bytes,
                              from.memory,
                              request);
  }
  Result ireducescatter(void* group,
                        const Buffer& from,
                        const Buffer& to,
                        const Window& window,
                        const Reduction& reduction,
                        void** request) override {
    Part part = part_of(from, window);
    return table_->ireducescatter(group,
                                  1,
                                  &part,
                                  to.data,
                                  window.bytes_per_rank,
                                  window.offset,
                                  window.bytes,
                                  type_of(reduction),
                                  op_of(reduction),
                                  to.memory,
                                  request);
  }
  Result close_group(void* group) override { return table_->closeColl(group); }

 private:
  using TableOf<Version, CollNetTable>::kVersion;
  using TableOf<Version, CollNetTable>::table_;
  static DataType type_of(const Reduction& reduction) {
    return static_cast<DataType>(reduction.dtype);
  }
  static ReduceOp op_of(const Reduction& reduction) { return static_cast<ReduceOp>(reduction.op); }
  static Part part_of(const Buffer& buffer, const Window& window) {
    return {buffer.memory, buffer.data, static_cast<decltype(Part::size)>(window.bytes)};
  }
};

}  // namespace

std::unique_ptr<CollNetTable> CollNetTable::of(int version, void* symbol) {
  return table_of<CollNetOf, CollNetTable>(nccl_abi::CollNetTables(), "CollNet", version, symbol);
}

}  // namespace ho::nccl_host
