// A device's properties as each version's structure has them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>

#include "abi/common.hpp"
#include "adapter/boundary.hpp"
#include "core/driver/device_properties.hpp"

namespace ho::plugin {

// Text that lives as long as the process: NCCL keeps the pointers.
char* kept(const std::string& text);

// Whatever of them the version's structure has.
template <typename Properties>
void copy(int device, const DeviceProperties& from, Properties& to) {
  to = {};
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
  if constexpr (requires { to.vProps; }) {  // v9
    to.forceFlush = from.force_flush ? 1 : 0;
    to.maxP2pBytes = from.max_p2p_bytes;
    to.maxCollBytes = from.max_collective_bytes;
    constexpr size_t kMax = std::size(decltype(to.vProps.devs){});
    to.vProps.ndevs = static_cast<int>(std::clamp(from.parts.size(), size_t{1}, kMax));
    to.vProps.devs[0] = device;  // of itself, where it has no parts
    std::copy_n(from.parts.begin(), std::min(from.parts.size(), kMax), to.vProps.devs);
  }
  if constexpr (requires { to.maxMultiRequestSize; }) {  // v11
    to.maxMultiRequestSize = from.max_multi_request_count;
  }
  if constexpr (requires { to.railId; }) {  // v12
    to.railId = from.rail_id;
    to.planeId = from.plane_id;
  }
}

// Of a table whose calls go to what `driver` returns: net() or coll_net().
template <auto driver, typename Properties>
nccl_abi::Result get_properties(int device, Properties* properties) {
  return guarded([&] {
    DeviceProperties from;
    const Reply reply = driver().properties(device, &from);
    if (reply == Reply::kSuccess) {
      copy(device, from, *properties);
    }
    return reply;
  });
}

template <auto driver, typename Properties>
nccl_abi::Result make_virtual_device(int* device, Properties* properties) {
  return guarded(
      [&] { return driver().make_virtual_device(properties->devs, properties->ndevs, device); });
}

}  // namespace ho::plugin
