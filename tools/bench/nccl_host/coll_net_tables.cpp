#include <limits>

#include "abi/tables.hpp"
#include "bench/nccl_host/error.hpp"
#include "bench/nccl_host/properties.hpp"
#include "bench/nccl_host/tables.hpp"

namespace ho::nccl_host {
namespace {

using nccl_abi::DataType;
using nccl_abi::DebugLogger;
using nccl_abi::ReduceOp;

template <typename Version>
class CollNetOf final : public CollNetTable {
 public:
  using Table = typename Version::Type;
  using Part = std::conditional_t<(Version::value < 9), nccl_abi::v8::Buffer, nccl_abi::v9::Buffer>;
  static constexpr int kVersion = Version::value;

  explicit CollNetOf(const Table& table) : table_(&table) {}

  [[nodiscard]] int version() const override { return kVersion; }
  [[nodiscard]] std::string name() const override { return table_->name; }

  Result init(void** context, uint64_t comm_id, DebugLogger logger) override {
    *context = nullptr;
    if constexpr (kVersion >= 11) {
      return table_->init(context, comm_id, logger);
    } else {
      return table_->init(logger);
    }
  }
  Result devices(int* count) override { return table_->devices(count); }
  Result properties(int device, DeviceProperties* properties) override {
    return read_properties(table_->getProperties, device, properties);
  }
  Result listen(void* context, int device, void* handle, void** listener) override {
    if constexpr (kVersion >= 11) {
      return table_->listen(context, device, handle, listener);
    } else {
      return table_->listen(device, handle, listener);
    }
  }
  Result connect(void** handles, int ranks, int rank, void* listener, void** group) override {
    return table_->connect(handles, ranks, rank, listener, group);
  }
  Result reduce_support(const Reduction& reduction, int* supported) override {
    return table_->reduceSupport(type_of(reduction), op_of(reduction), supported);
  }
  Result register_memory(void* group, void* data, size_t bytes, int kind, void** memory) override {
    return table_->regMr(group, data, bytes, kind, memory);
  }
  Result deregister(void* group, void* memory) override { return table_->deregMr(group, memory); }
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
  Result iflush(void* group, void* data, int size, void* memory, void** request) override {
    return table_->iflush(group, data, size, memory, request);
  }
  Result test(void* request, int* done, int* size) override {
    return table_->test(request, done, size);
  }
  Result close_group(void* group) override { return table_->closeColl(group); }
  Result close_listen(void* listener) override { return table_->closeListen(listener); }
  Result finalize(void* context) override {
    if constexpr (kVersion >= 11) {
      return table_->finalize(context);
    } else {
      return Result::kSuccess;
    }
  }

 private:
  static DataType type_of(const Reduction& reduction) {
    return static_cast<DataType>(reduction.dtype);
  }
  static ReduceOp op_of(const Reduction& reduction) { return static_cast<ReduceOp>(reduction.op); }
  static Part part_of(const Buffer& buffer, const Window& window) {
    return {buffer.memory, buffer.data, static_cast<decltype(Part::size)>(window.bytes)};
  }

  const Table* table_;
};

}  // namespace

std::unique_ptr<CollNetTable> CollNetTable::of(int version, void* symbol) {
  std::unique_ptr<CollNetTable> made;
  (void)nccl_abi::visit_table(
      nccl_abi::CollNetTables(), version, symbol, [&](auto number, const auto& table) {
        made = std::make_unique<CollNetOf<decltype(number)>>(table);
      });
  if (made == nullptr) {
    throw HostError("this host does not know CollNet tables of version " + std::to_string(version));
  }
  return made;
}

}  // namespace ho::nccl_host
