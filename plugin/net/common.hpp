// What the net adapters of all versions do alike: calls that have had the same arguments since v8,
// and conversions. An adapter copies fields; everything else is the driver's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>

#include "abi/common.hpp"
#include "base/log.hpp"
#include "core/plugin.hpp"

namespace ho::plugin {

// What NCCL_NET has to be, if anything. Ours whatever network is below: NCCL takes the network of
// the library whose name was asked for.
inline constexpr const char* kNetName = "HO-Ring";
// Messages of one irecv, in any version.
inline constexpr size_t kMostGrouped = 8;

inline nccl_abi::Result result(Reply reply) {
  return static_cast<nccl_abi::Result>(reply);
}

// The boundary to C: nothing is thrown across it.
template <typename Call>
nccl_abi::Result guarded(const Call& call) noexcept {
  try {
    return result(call());
  } catch (const std::exception& error) {
    logger().error("horing plugin: {}", error.what());
  } catch (...) {
    logger().error("horing plugin: something that is no std::exception was thrown");
  }
  return nccl_abi::Result::kInternalError;
}

inline Plugin::Log log_of(nccl_abi::DebugLogger logger) {
  if (logger == nullptr) {
    return {};
  }
  return [logger](Plugin::Level level, const char* text) {
    const auto as = level == Plugin::Level::kWarn   ? nccl_abi::LogLevel::kWarn
                    : level == Plugin::Level::kInfo ? nccl_abi::LogLevel::kInfo
                                                    : nccl_abi::LogLevel::kTrace;
    logger(as, nccl_abi::kLogInit | nccl_abi::kLogNet, "horing", 0, "%s", text);
  };
}

inline Reply start(const char* interface, nccl_abi::DebugLogger logger) {
  return reply_of(Plugin::instance().start(interface, log_of(logger)).code());
}

inline NetDriver& net() {
  return Plugin::instance().net();
}

// Text that lives as long as the process: NCCL keeps the pointers.
char* kept(const std::string& text);

// The fields that properties of every version have.
template <typename Properties>
void copy_common(const DeviceProperties& from, Properties& to) {
  to.name = kept(from.name);
  to.pciPath = from.pci_path.empty() ? nullptr : kept(from.pci_path);
  to.guid = from.guid;
  to.ptrSupport = from.memory_kinds;
  to.regIsGlobal = from.registration_is_global ? 1 : 0;
  to.speed = from.speed_mbps;
  to.port = from.port;
  to.latency = from.latency_us;
  to.maxComms = from.max_comms;
  to.maxRecvs = from.max_recvs;
  to.netDeviceType = static_cast<nccl_abi::NetDeviceType>(from.device_type);
  to.netDeviceVersion = from.device_version;
}

// And those of v9 and later.
template <typename Properties>
void copy_since_v9(int device, const DeviceProperties& from, Properties& to) {
  copy_common(from, to);
  to.forceFlush = from.force_flush ? 1 : 0;
  to.maxP2pBytes = from.max_p2p_bytes;
  to.maxCollBytes = from.max_collective_bytes;
  to.vProps = {};
  constexpr size_t kMost = sizeof(to.vProps.devs) / sizeof(to.vProps.devs[0]);
  to.vProps.ndevs = static_cast<int>(std::min(from.parts.size(), kMost));
  for (int i = 0; i < to.vProps.ndevs; ++i) {
    to.vProps.devs[i] = from.parts[static_cast<size_t>(i)];
  }
  if (to.vProps.ndevs == 0) {
    to.vProps.ndevs = 1;
    to.vProps.devs[0] = device;
  }
}

// Calls that are alike in every version.
namespace every_version {

nccl_abi::Result devices(int* count);
nccl_abi::Result accept(void* listener, void** receiver, nccl_abi::DeviceHandle** device_handle);
nccl_abi::Result register_memory(void* comm, void* data, size_t size, int type, void** memory);
nccl_abi::Result register_dma_buf(
    void* comm, void* data, size_t size, int type, uint64_t offset, int descriptor, void** memory);
nccl_abi::Result deregister(void* comm, void* memory);
nccl_abi::Result iflush(
    void* receiver, int count, void** data, int* sizes, void** memories, void** request);
nccl_abi::Result test(void* request, int* done, int* sizes);
nccl_abi::Result close_send(void* comm);
nccl_abi::Result close_recv(void* comm);
nccl_abi::Result close_listen(void* listener);
nccl_abi::Result device_memory(void* comm, void* memory, void** of_device);
nccl_abi::Result consumed(void* receiver, int count, void* request);

}  // namespace every_version

// The members that are alike in every version's table.
template <typename Net>
constexpr void fill_common(Net& table, const char* name) {
  table.name = name;
  table.devices = every_version::devices;
  table.accept = every_version::accept;
  table.regMr = every_version::register_memory;
  table.regMrDmaBuf = every_version::register_dma_buf;
  table.deregMr = every_version::deregister;
  table.iflush = every_version::iflush;
  table.test = every_version::test;
  table.closeSend = every_version::close_send;
  table.closeRecv = every_version::close_recv;
  table.closeListen = every_version::close_listen;
}

// What the driver has beyond what must be there. NCCL reads the table after init.
template <typename Net>
void offer_extras(Net& table) {
  const NetDriver::Extras extras = net().extras();
  table.getDeviceMr = extras.device_memory ? every_version::device_memory : nullptr;
  table.irecvConsumed = extras.consumption ? every_version::consumed : nullptr;
}

}  // namespace ho::plugin
