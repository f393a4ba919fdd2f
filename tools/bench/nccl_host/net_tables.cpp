#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "bench/nccl_host/properties.hpp"

namespace ho::nccl_host {
namespace {

using nccl_abi::DebugLogger;
using nccl_abi::DeviceHandle;
using nccl_abi::Result;
using Receives = NetTable::Receives;

constexpr size_t kMaxGrouped = 8;

// What NCCL's shim of v8 does with sizes that have grown since.
bool fits_int(size_t bytes) {
  return bytes <= static_cast<size_t>(std::numeric_limits<int>::max());
}

template <typename Version>
class NetOf final : public TableOf<Version, NetTable> {
 public:
  using TableOf<Version, NetTable>::TableOf;

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
    const auto wanted = std::span(receives.bytes, static_cast<size_t>(receives.count));
    if (wanted.size() > kMaxGrouped || (kVersion == 8 && !std::ranges::all_of(wanted, fits_int))) {
      return Result::kInvalidArgument;
    }
    using Size = std::conditional_t<kVersion == 8, int, size_t>;
    std::array<Size, kMaxGrouped> sizes{};
    std::ranges::transform(
        wanted, sizes.begin(), [](size_t bytes) { return static_cast<Size>(bytes); });
    const auto call = [&](auto... profiles) {
      return table_->irecv(receiver,
                           receives.count,
                           receives.data,
                           sizes.data(),
                           receives.tags,
                           receives.memories,
                           profiles...,
                           request);
    };
    if constexpr (kVersion >= 10) {
      std::array<void*, kMaxGrouped> profiles{};
      return call(profiles.data());
    } else {
      return call();
    }
  }
  Result close_send(void* sender) override { return table_->closeSend(sender); }
  Result close_recv(void* receiver) override { return table_->closeRecv(receiver); }

 private:
  using TableOf<Version, NetTable>::kVersion;
  using TableOf<Version, NetTable>::table_;
  nccl_abi::v10::CommConfig config_{-1};
};

}  // namespace

std::unique_ptr<NetTable> NetTable::of(int version, void* symbol) {
  return table_of<NetOf, NetTable>(nccl_abi::NetTables(), "net", version, symbol);
}

}  // namespace ho::nccl_host
