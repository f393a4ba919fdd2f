// The tables that NCCL finds, one for each version.
#include "abi/tables.hpp"

#include "net/common.hpp"

HORING_NET_TABLE(8);   // NCCL 2.20: sizes are int
HORING_NET_TABLE(9);   // NCCL 2.24: sizes are size_t, devices may be made of several
HORING_NET_TABLE(10);  // NCCL 2.26: with the profiler's handles, and a traffic class per connection
HORING_NET_TABLE(11);  // NCCL 2.28: a context per communicator
HORING_NET_TABLE(12);  // NCCL 2.30: devices say their rail
