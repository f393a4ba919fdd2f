// A device's properties of any version as the host keeps them.
#pragma once

#include "bench/nccl_host/tables.hpp"

namespace ho::nccl_host {

template <typename Properties>
DeviceProperties properties_of(const Properties& from) {
  DeviceProperties to;
  to.name = from.name == nullptr ? "" : from.name;
  to.pci_path = from.pciPath == nullptr ? "" : from.pciPath;
  to.guid = from.guid;
  to.memory_kinds = from.ptrSupport;
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

}  // namespace ho::nccl_host
