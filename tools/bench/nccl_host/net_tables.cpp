#include <algorithm>
#include <array>
#include <limits>

#include "abi/tables.hpp"
#include "bench/nccl_host/error.hpp"
#include "bench/nccl_host/properties.hpp"
#include "bench/nccl_host/tables.hpp"

namespace ho::nccl_host {
namespace {

using nccl_abi::DebugLogger;
using nccl_abi::DeviceHandle;

constexpr size_t kMaxGrouped = 8;

// What NCCL's shim of v8 does with sizes that have grown since.
bool fits_int(size_t bytes) {
  return bytes <= static_cast<size_t>(std::numeric_limits<int>::max());
}

template <typename Version>
class NetOf final : public NetTable {
 public:
  using Table = typename Version::Type;
  static constexpr int kVersion = Version::value;

  explicit NetOf(const Table& table) : table_(&table) {}

  [[nodiscard]] int version() const override { return kVersion; }
  [[nodiscard]] std::string name() const override { return table_->name; }

  Result init(void** context, uint64_t comm_id, DebugLogger logger) override {
    *context = nullptr;
    if constexpr (kVersion >= 11) {
      config_.trafficClass = -1;
      return table_->init(context, comm_id, &config_, logger, nullptr);
    } else if constexpr (kVersion == 10) {
      return table_->init(logger, nullptr);
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
  Result connect(void* context, int device, void* handle, void** sender) override {
    DeviceHandle* of_device = nullptr;
    if constexpr (kVersion >= 11) {
      return table_->connect(context, device, handle, sender, &of_device);
    } else if constexpr (kVersion == 10) {
      nccl_abi::v10::CommConfig config{-1};
      return table_->connect(device, &config, handle, sender, &of_device);
    } else {
      return table_->connect(device, handle, sender, &of_device);
    }
  }
  Result accept(void* listener, void** receiver) override {
    DeviceHandle* of_device = nullptr;
    return table_->accept(listener, receiver, &of_device);
  }
  Result register_memory(void* comm, void* data, size_t bytes, int kind, void** memory) override {
    return table_->regMr(comm, data, bytes, kind, memory);
  }
  Result deregister(void* comm, void* memory) override { return table_->deregMr(comm, memory); }
  Result isend(
      void* sender, void* data, size_t bytes, int tag, void* memory, void** request) override {
    if constexpr (kVersion >= 10) {
      return table_->isend(sender, data, bytes, tag, memory, nullptr, request);
    } else if constexpr (kVersion == 9) {
      return table_->isend(sender, data, bytes, tag, memory, request);
    } else {
      return fits_int(bytes)
                 ? table_->isend(sender, data, static_cast<int>(bytes), tag, memory, request)
                 : Result::kInvalidArgument;
    }
  }
  Result irecv(void* receiver, const Receives& receives, void** request) override {
    const auto count = static_cast<size_t>(receives.count);
    if (count > kMaxGrouped) {
      return Result::kInvalidArgument;
    }
    if constexpr (kVersion == 8) {
      std::array<int, kMaxGrouped> sizes{};
      for (size_t i = 0; i < count; ++i) {
        if (!fits_int(receives.bytes[i])) {
          return Result::kInvalidArgument;
        }
        sizes.at(i) = static_cast<int>(receives.bytes[i]);
      }
      return table_->irecv(receiver,
                           receives.count,
                           receives.data,
                           sizes.data(),
                           receives.tags,
                           receives.memories,
                           request);
    } else {
      std::array<size_t, kMaxGrouped> sizes{};
      std::copy_n(receives.bytes, count, sizes.begin());
      if constexpr (kVersion == 9) {
        return table_->irecv(receiver,
                             receives.count,
                             receives.data,
                             sizes.data(),
                             receives.tags,
                             receives.memories,
                             request);
      } else {
        std::array<void*, kMaxGrouped> profiles{};
        return table_->irecv(receiver,
                             receives.count,
                             receives.data,
                             sizes.data(),
                             receives.tags,
                             receives.memories,
                             profiles.data(),
                             request);
      }
    }
  }
  Result iflush(void* receiver, int count, void** data, int* sizes, void** memories, void** request)
      override {
    return table_->iflush(receiver, count, data, sizes, memories, request);
  }
  Result test(void* request, int* done, int* sizes) override {
    return table_->test(request, done, sizes);
  }
  Result close_send(void* sender) override { return table_->closeSend(sender); }
  Result close_recv(void* receiver) override { return table_->closeRecv(receiver); }
  Result close_listen(void* listener) override { return table_->closeListen(listener); }
  Result finalize(void* context) override {
    if constexpr (kVersion >= 11) {
      return table_->finalize(context);
    } else {
      return Result::kSuccess;
    }
  }

 private:
  const Table* table_;
  nccl_abi::v10::CommConfig config_{-1};
};

}  // namespace

std::unique_ptr<NetTable> NetTable::of(int version, void* symbol) {
  std::unique_ptr<NetTable> made;
  (void)nccl_abi::visit_table(
      nccl_abi::NetTables(), version, symbol, [&](auto number, const auto& table) {
        made = std::make_unique<NetOf<decltype(number)>>(table);
      });
  if (made == nullptr) {
    throw HostError("this host does not know net tables of version " + std::to_string(version));
  }
  return made;
}

}  // namespace ho::nccl_host
