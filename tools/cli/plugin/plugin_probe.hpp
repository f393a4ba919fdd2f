// What our plugin reports once NCCL has loaded it: its network's devices, whether CollNet has them
// too, whether a tuner can be had, and its log.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/plugin/plugin_search.hpp"

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
  std::vector<std::string> log;       // what it logged to NCCL, except warnings
  std::string coll_net_said;          // its last line from the start of CollNet
  std::vector<std::string> warnings;  // those of its warnings that name a problem
};

// Calls init, devices and getProperties of the newest versions that were found, as NCCL does before
// its first communicator, and a tuner's init. Only for findings whose network is ours.
[[nodiscard]] ProbedPlugin probe_plugin(const Findings& findings);

}  // namespace ho
