// What the tables of all versions and of both interfaces have in common: a device's properties as
// the host keeps them, and calls.
#pragma once

#include <memory>
#include <string>

#include "abi/tables.hpp"
#include "bench/nccl_host/error.hpp"
#include "bench/nccl_host/tables.hpp"

namespace ho::nccl_host {

template <typename Properties>
DeviceProperties properties_of(const Properties& from) {
  DeviceProperties to;
  to.name = from.name == nullptr ? "" : from.name;
  to.guid = from.guid;
  to.speed_mbps = from.speed;
  to.port = from.port;
  to.max_comms = from.maxComms;
  to.max_recvs = from.maxRecvs;
  if constexpr (requires { from.maxP2pBytes; }) {
    to.max_p2p_bytes = from.maxP2pBytes;
    to.max_coll_bytes = from.maxCollBytes;
  }
  if constexpr (requires { from.railId; }) {
    to.rail_id = from.railId;
    to.plane_id = from.planeId;
  }
  return to;
}

// By a table's getProperties().
template <typename Properties>
nccl_abi::Result read_properties(nccl_abi::Result (*get)(int, Properties*),
                                 int device,
                                 DeviceProperties* properties) {
  Properties from{};
  const nccl_abi::Result result = get(device, &from);
  if (result == nccl_abi::Result::kSuccess) {
    *properties = properties_of(from);
  }
  return result;
}

// Interface: NetTable or CollNetTable.
template <typename Version, typename Interface>
class TableOf : public Interface {
 public:
  using Table = typename Version::Type;
  using Result = nccl_abi::Result;
  static constexpr int kVersion = Version::value;

  explicit TableOf(const Table& table) : table_(&table) {}

  [[nodiscard]] int version() const final { return kVersion; }
  [[nodiscard]] std::string name() const final { return table_->name; }
  Result devices(int* count) final { return table_->devices(count); }
  Result properties(int device, DeviceProperties* properties) final {
    return read_properties(table_->getProperties, device, properties);
  }
  Result listen(void* context, int device, void* handle, void** listener) final {
    if constexpr (kVersion >= 11) {
      return table_->listen(context, device, handle, listener);
    } else {
      return table_->listen(device, handle, listener);
    }
  }
  Result register_memory(void* comm, void* data, size_t bytes, int kind, void** memory) final {
    return table_->regMr(comm, data, bytes, kind, memory);
  }
  Result deregister(void* comm, void* memory) final { return table_->deregMr(comm, memory); }
  Result test(void* request, int* done, int* sizes) final {
    return table_->test(request, done, sizes);
  }
  Result close_listen(void* listener) final { return table_->closeListen(listener); }
  Result finalize(void* context) final {
    if constexpr (kVersion >= 11) {
      return table_->finalize(context);
    } else {
      return Result::kSuccess;
    }
  }

 protected:
  const Table* table_;
};

// Throws HostError for a version that NCCL's releases with this host's headers do not have.
template <template <typename> typename Made, typename Interface, typename Tables>
std::unique_ptr<Interface> table_of(const Tables& tables,
                                    const char* what,
                                    int version,
                                    void* symbol) {
  std::unique_ptr<Interface> made;
  (void)nccl_abi::visit_table(tables, version, symbol, [&](auto number, const auto& table) {
    made = std::make_unique<Made<decltype(number)>>(table);
  });
  if (made == nullptr) {
    throw HostError("this host does not know " + std::string(what) + " tables of version " +
                    std::to_string(version));
  }
  return made;
}

}  // namespace ho::nccl_host
