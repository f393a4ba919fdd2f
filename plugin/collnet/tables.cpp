// The tables that NCCL finds, one for each version.
#include "abi/tables.hpp"

#include "collnet/common.hpp"

#define HORING_COLLNET_TABLE(version)                                    \
  extern "C" __attribute__((visibility("default")))                      \
  nccl_abi::v##version::CollNet ncclCollNetPlugin_v##version;            \
  constinit nccl_abi::v##version::CollNet ncclCollNetPlugin_v##version = \
      ho::plugin::coll_net_table<ncclCollNetPlugin_v##version, version>()

HORING_COLLNET_TABLE(8);   // NCCL 2.20: counts are int
HORING_COLLNET_TABLE(9);   // NCCL 2.24: counts are size_t
HORING_COLLNET_TABLE(10);  // NCCL 2.26
HORING_COLLNET_TABLE(11);  // NCCL 2.28: a context per communicator
HORING_COLLNET_TABLE(12);  // NCCL 2.30: devices say their rail
