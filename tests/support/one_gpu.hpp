// Several ranks of a job on one GPU, each a host of its own to NCCL.
#pragma once

#include <cstdlib>
#include <string>
#include <utility>

namespace ho::test {

// Before NCCL is used. What the user has set stays, but for the host.
inline void set_for_one_gpu(int rank) {
  ::setenv("NCCL_HOSTID", ("horing-rank-" + std::to_string(rank)).c_str(), 1);
  for (const auto& [name, value] : {std::pair("NCCL_SOCKET_IFNAME", "lo"),
                                    {"NCCL_IB_DISABLE", "1"},
                                    {"NCCL_MNNVL_ENABLE", "0"},
                                    {"NCCL_NVLS_ENABLE", "0"},
                                    {"NCCL_MAX_CTAS", "2"}}) {
    ::setenv(name, value, 0);
  }
}

}  // namespace ho::test
