// Command line of plugin_perf.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "bench/harness/sizes.hpp"
#include "bench/nccl_host/work.hpp"
#include "cli/subcommands/exit_status.hpp"

namespace ho::plugin_perf {

struct Options {
  std::vector<nccl_host::Collective> collectives;
  std::vector<harness::SizeRun> sizes;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  uint32_t rounds = 5;
  uint32_t warmup = 3;
  uint32_t channels = 4;
  uint64_t slot_bytes = uint64_t{512} << 10;  // CollNet: NCCL_BUFFSIZE / 8
  uint64_t chunk_bytes = 0;                   // CollNet: 0 as NCCL chooses
  bool coll_net = true;
  bool ring = true;
  bool measure_link_limit = true;
  std::string release = "2.30.7";
  std::string plugin;  // "": NCCL_NET_PLUGIN, else the build's own

  [[nodiscard]] uint64_t largest() const;
};

[[nodiscard]] Parsed<Options> parse_options(int argc, const char* const* argv);

}  // namespace ho::plugin_perf
