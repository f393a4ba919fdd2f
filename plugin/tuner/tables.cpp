// The tables that NCCL finds, one for each version.
#include "abi/tables.hpp"

#include "tuner/common.hpp"

#define HORING_TUNER_TABLE(version)                                  \
  extern "C" __attribute__((visibility("default")))                  \
  nccl_abi::v##version::Tuner ncclTunerPlugin_v##version;            \
  constinit nccl_abi::v##version::Tuner ncclTunerPlugin_v##version = \
      ho::plugin::tuner_table<nccl_abi::v##version::Tuner, version>()

HORING_TUNER_TABLE(2);  // NCCL 2.21: no table of costs
HORING_TUNER_TABLE(3);  // NCCL 2.22: the tuner edits NCCL's table of costs
HORING_TUNER_TABLE(4);  // NCCL 2.24: the tuner hears of registered buffers
HORING_TUNER_TABLE(5);  // NCCL 2.28: the tuner hears which communicator it is for, and of its nodes
HORING_TUNER_TABLE(6);  // NCCL 2.30: the tuner is asked for chunk sizes
