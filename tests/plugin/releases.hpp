// What the tests run over.
#pragma once

#include <map>
#include <string>

#include "bench/nccl_host/work.hpp"
#include "host_job.hpp"

namespace ho::plugin_host_test {

// The newest release that looks up tables of a version, and no newer ones.
inline const std::map<int, std::string> kReleaseOfVersion{
    {8, "2.23.4"}, {9, "2.25.1"}, {10, "2.27.7"}, {11, "2.28.9"}, {12, "2.32.3"}};

inline constexpr nccl_host::Collective kCollectives[] = {nccl_host::Collective::kAllReduce,
                                                         nccl_host::Collective::kAllGather,
                                                         nccl_host::Collective::kReduceScatter};

inline HostJobOptions host_job(uint32_t nodes, uint32_t ranks, int version) {
  HostJobOptions options;
  options.shape = {nodes, ranks};
  options.release = kReleaseOfVersion.at(version);
  return options;
}

}  // namespace ho::plugin_host_test
