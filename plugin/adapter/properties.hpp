// A device's properties as each version's structure has them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>

#include "abi/common.hpp"
#include "core/device_properties.hpp"

namespace ho::plugin {

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
  constexpr size_t kMost = std::size(decltype(to.vProps.devs){});
  to.vProps.ndevs = static_cast<int>(std::min(from.parts.size(), kMost));
  for (int i = 0; i < to.vProps.ndevs; ++i) {
    to.vProps.devs[i] = from.parts[static_cast<size_t>(i)];
  }
  if (to.vProps.ndevs == 0) {
    to.vProps.ndevs = 1;
    to.vProps.devs[0] = device;
  }
}

}  // namespace ho::plugin
