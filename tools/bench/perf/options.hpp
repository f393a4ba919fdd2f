// Command line of the perf programs: nccl-tests' options with nccl-tests' meaning, and ours.
#pragma once

#include <horing.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "bench/harness/collective.hpp"
#include "bench/harness/sizes.hpp"
#include "cli/subcommands/exit_status.hpp"

namespace ho::perf {

[[nodiscard]] std::string_view to_string(ho_algorithm algorithm);
[[nodiscard]] std::optional<ho_algorithm> parse_algorithm(std::string_view name);

// What the calls' buffers are.
enum class Memory : uint8_t {
  kHost,
  kDevice,
  kMixed,  // sends from the device, receives into pinned memory of the host
};
[[nodiscard]] std::string_view to_string(Memory memory);  // "host"

struct Options {
  uint64_t min_bytes = 32u << 20;
  uint64_t max_bytes = 32u << 20;
  uint64_t step_bytes = 1u << 20;
  uint64_t step_factor = 1;  // above 1: sizes grow by this factor, otherwise by step_bytes
  uint32_t iterations = 20;
  uint32_t warmup = 5;
  bool check = true;
  bool barrier_each = false;  // -z 1
  std::vector<DType> dtypes{DType::kFloat32};
  std::vector<ReduceOp> ops{ReduceOp::kSum};
  ho_algorithm algorithm = HO_ALGORITHM_AUTO;
  Memory memory = Memory::kHost;
  bool out_of_place = true;
  bool in_place = true;
  bool phases = false;
  bool groups = false;
  bool measure_link_limit = true;
  double link_limit = 0.0;                     // given: bytes per second of one node; 0: measure
  std::vector<harness::SizeRun> listed_sizes;  // --sizes; empty: from -b, -e, -f, -i
  std::string json_file;
  std::vector<std::string> words;  // the command line as given, the program's name first

  // The sizes to run, in order.
  [[nodiscard]] std::vector<harness::SizeRun> sizes() const;
};

// A status where --help or a bad argument ends it, which the first rank has printed.
[[nodiscard]] Parsed<Options> parse_options(harness::Collective collective,
                                            int argc,
                                            const char* const* argv);

}  // namespace ho::perf
