// What our plugin says once NCCL has loaded it: its network's devices, whether CollNet has them
// too, whether a tuner can be had, and its log.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "horing/plugin_search.hpp"

namespace ho {

struct ProbedDevice {
  std::string name;
  std::string pci_path;
  int speed_mbps = 0;
  bool coll_net = false;
};

struct ProbedPlugin {
  bool started = false;  // the network
  bool has_tuner = false;
  std::vector<ProbedDevice> devices;
  std::vector<std::string> log;       // what it told NCCL, but for warnings
  std::string coll_net_said;          // the last line of it that came from starting CollNet
  std::vector<std::string> warnings;  // of those that it told, the ones that say what is wrong
};

// Calls init, devices and getProperties of the newest versions that were found, as NCCL does before
// its first communicator, and a tuner's init. Only for findings whose network is ours.
[[nodiscard]] ProbedPlugin probe_plugin(const Findings& findings);

}  // namespace ho
