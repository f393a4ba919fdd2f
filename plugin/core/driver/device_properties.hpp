// What a network device says about itself: the union of what NCCL has asked for in its versions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ho::plugin {

// Kinds of memory, as bits.
inline constexpr int32_t kHostMemory = 1;
inline constexpr int32_t kCudaMemory = 2;
inline constexpr int32_t kDmaBufMemory = 4;

struct DeviceProperties {
  std::string name;      // "eth0"; one device of NCCL's topology per name
  std::string address;   // numeric, of TCP; "" where it has none
  std::string pci_path;  // "/sys/class/net/eth0/device" resolved; "" where there is none
  uint64_t guid = 0;
  int32_t memory_kinds = kHostMemory;
  bool registration_is_global = false;
  bool force_flush = false;
  int32_t speed_mbps = 0;
  int32_t port = 0;
  float latency_us = 0;
  int32_t max_comms = 0;
  int32_t max_recvs = 1;  // of one grouped receive
  int32_t device_type = 0;
  int32_t device_version = 0;
  std::vector<int32_t> parts;  // physical devices that this one consists of; empty: itself
  size_t max_p2p_bytes = 0;
  size_t max_collective_bytes = 0;
  int32_t max_multi_request_count = 1;
  int16_t rail_id = -1;
  int16_t plane_id = -1;
  std::string reason;  // why it is offered, for the log
};

}  // namespace ho::plugin
