// What differs between the tables of net plugins, version by version: each function here makes one
// call, with whatever the version has of the arguments.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>

#include "abi/net_v10.hpp"
#include "abi/net_v11.hpp"
#include "abi/net_v12.hpp"
#include "abi/net_v8.hpp"
#include "abi/net_v9.hpp"
#include "core/driver/device_properties.hpp"
#include "core/driver/net_driver.hpp"
#include "core/forward/host_functions.hpp"

namespace ho::plugin::forward {

template <typename Net>
inline constexpr int kVersion = 0;
template <>
inline constexpr int kVersion<nccl_abi::v8::Net> = 8;
template <>
inline constexpr int kVersion<nccl_abi::v9::Net> = 9;
template <>
inline constexpr int kVersion<nccl_abi::v10::Net> = 10;
template <>
inline constexpr int kVersion<nccl_abi::v11::Net> = 11;
template <>
inline constexpr int kVersion<nccl_abi::v12::Net> = 12;

template <typename Net>
inline constexpr bool kSizesAreInt = kVersion<Net> < 9;
template <typename Net>
inline constexpr bool kHasProfiles = kVersion<Net> >= 10;
template <typename Net>
inline constexpr bool kHasContexts = kVersion<Net> >= 11;

inline constexpr size_t kMaxIntBytes = std::numeric_limits<int>::max();
// A power of two that an int holds: what NCCL itself sends at most through such a table.
inline constexpr size_t kMaxP2pBytesV8 = size_t{1} << 30U;

template <typename Call>
struct ArgumentsOf;
template <typename First, typename Second>
struct ArgumentsOf<nccl_abi::Result (*)(First*, Second*)> {
  using Pointee = Second;
};
template <typename Second>
struct ArgumentsOf<nccl_abi::Result (*)(int, Second*)> {
  using Pointee = Second;
};

inline Reply reply_of(nccl_abi::Result result) {
  return static_cast<Reply>(result);
}

// What an init is given: all that any version takes.
struct InitArguments {
  uint64_t comm_id = 0;
  int32_t traffic_class = kNoTrafficClass;
  HostFunctions host;
};

template <typename Net>
Reply init(const Net& table, const InitArguments& arguments, void** context) {
  if constexpr (kHasContexts<Net>) {
    nccl_abi::v11::CommConfig config{arguments.traffic_class};
    return reply_of(table.init(
        context, arguments.comm_id, &config, arguments.host.log, arguments.host.profiler));
  } else if constexpr (kHasProfiles<Net>) {
    return reply_of(table.init(arguments.host.log, arguments.host.profiler));
  } else {
    return reply_of(table.init(arguments.host.log));
  }
}

template <typename Net>
Reply listen(const Net& table, void* context, int32_t device, void* handle, void** listener) {
  if constexpr (kHasContexts<Net>) {
    return reply_of(table.listen(context, device, handle, listener));
  } else {
    return reply_of(table.listen(device, handle, listener));
  }
}

struct ConnectArguments {
  void* context = nullptr;
  int32_t device = 0;
  int32_t traffic_class = kNoTrafficClass;
  void* handle = nullptr;
};

template <typename Net>
Reply connect(const Net& table,
              const ConnectArguments& to,
              void** comm,
              nccl_abi::DeviceHandle** device_handle) {
  if constexpr (kHasContexts<Net>) {
    return reply_of(table.connect(to.context, to.device, to.handle, comm, device_handle));
  } else if constexpr (kVersion<Net> == 10) {
    nccl_abi::v10::CommConfig config{to.traffic_class};
    return reply_of(table.connect(to.device, &config, to.handle, comm, device_handle));
  } else {
    return reply_of(table.connect(to.device, to.handle, comm, device_handle));
  }
}

// Of bytes that the version's type holds.
template <typename Net>
Reply isend(const Net& table, void* comm, const NetDriver::Send& send, void** request) {
  if constexpr (kHasProfiles<Net>) {
    return reply_of(
        table.isend(comm, send.data, send.bytes, send.tag, send.memory, send.profile, request));
  } else if constexpr (kSizesAreInt<Net>) {
    return reply_of(
        table.isend(comm, send.data, static_cast<int>(send.bytes), send.tag, send.memory, request));
  } else {
    return reply_of(table.isend(comm, send.data, send.bytes, send.tag, send.memory, request));
  }
}

template <typename Net>
Reply irecv(const Net& table, void* comm, const NetDriver::Receives& receive, void** request) {
  // No plugin writes to what NCCL's types leave writable.
  auto* const sizes = const_cast<size_t*>(receive.bytes);  // NOLINT
  auto* const tags = const_cast<int32_t*>(receive.tags);   // NOLINT
  if constexpr (kHasProfiles<Net>) {
    std::array<void*, kMaxGrouped> none{};
    return reply_of(table.irecv(comm,
                                receive.count,
                                receive.data,
                                sizes,
                                tags,
                                receive.memories,
                                receive.profiles == nullptr ? none.data() : receive.profiles,
                                request));
  } else if constexpr (kSizesAreInt<Net>) {
    std::array<int, kMaxGrouped> narrow{};
    std::transform(sizes, sizes + receive.count, narrow.begin(), [](size_t bytes) {
      return static_cast<int>(bytes);
    });
    *request = nullptr;  // v8 has no completion that may be left out
    return reply_of(table.irecv(
        comm, receive.count, receive.data, narrow.data(), tags, receive.memories, request));
  } else {
    return reply_of(
        table.irecv(comm, receive.count, receive.data, sizes, tags, receive.memories, request));
  }
}

// What the version's structure does not have is as NCCL itself takes it for such a plugin.
template <typename Properties>
DeviceProperties properties_of(const Properties& from) {
  DeviceProperties to;
  to.name = from.name == nullptr ? "" : from.name;
  to.pci_path = from.pciPath == nullptr ? "" : from.pciPath;
  to.guid = from.guid;
  to.memory_kinds = from.ptrSupport;
  to.registration_is_global = from.regIsGlobal != 0;
  to.speed_mbps = from.speed;
  to.port = from.port;
  to.latency_us = from.latency;
  to.max_comms = from.maxComms;
  to.max_recvs = from.maxRecvs;
  to.device_type = static_cast<int32_t>(from.netDeviceType);
  to.device_version = from.netDeviceVersion;
  to.max_p2p_bytes = kMaxP2pBytesV8;
  to.max_collective_bytes = nccl_abi::kMaxCollNetBytesV8;
  if constexpr (requires { from.vProps; }) {  // v9
    to.force_flush = from.forceFlush != 0;
    to.max_p2p_bytes = from.maxP2pBytes;
    to.max_collective_bytes = from.maxCollBytes;
    constexpr int kMax = static_cast<int>(std::size(decltype(from.vProps.devs){}));
    const auto* const parts = std::begin(from.vProps.devs);
    to.parts.assign(parts, parts + std::clamp(from.vProps.ndevs, 0, kMax));
  }
  if constexpr (requires { from.maxMultiRequestSize; }) {  // v11
    to.max_multi_request_count = from.maxMultiRequestSize;
  }
  if constexpr (requires { from.railId; }) {  // v12
    to.rail_id = from.railId;
    to.plane_id = from.planeId;
  }
  return to;
}

// The first member that a plugin must have and this one has not; "" for none.
template <typename Net>
std::string missing_member(const Net& table) {
  std::string missing;
  const auto look = [&](const char* name, bool is_there) {
    if (!is_there && missing.empty()) {
      missing = name;
    }
  };
  look("name", table.name != nullptr);
  look("devices", table.devices != nullptr);
  look("getProperties", table.getProperties != nullptr);
  look("listen", table.listen != nullptr);
  look("connect", table.connect != nullptr);
  look("accept", table.accept != nullptr);
  look("regMr", table.regMr != nullptr);
  look("deregMr", table.deregMr != nullptr);
  look("isend", table.isend != nullptr);
  look("irecv", table.irecv != nullptr);
  look("test", table.test != nullptr);
  look("closeSend", table.closeSend != nullptr);
  look("closeRecv", table.closeRecv != nullptr);
  look("closeListen", table.closeListen != nullptr);
  return missing;
}

}  // namespace ho::plugin::forward
