// The options of `horing tune`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "cli/subcommands/exit_status.hpp"
#include "core/tuner/choice.hpp"
#include "core/tuner/inputs.hpp"

namespace ho {

// As on the command line, else in the variables that the tuner itself reads (HORING_TUNING_FILE,
// HORING_TUNER_*, HORING_LEVELS_FILE), else the defaults.
struct TuneOptions {
  uint32_t nodes = 4;
  uint32_t ranks_per_node = 4;
  std::optional<uint32_t> nics;      // per node; nothing: one per rank
  std::optional<uint32_t> heads;     // per node; nothing: one per NIC, at most one per rank
  uint32_t rail_mbps = 100'000;      // of one NIC
  std::optional<uint32_t> nic_mbps;  // nothing: rail_mbps
  uint32_t intra_mbps = 2'400'000;   // of one GPU; 0: no limit
  uint32_t hop_us = 20;
  std::optional<uint32_t> hop_ns;                     // of levels; nothing: hop_us
  std::optional<uint32_t> intra_hop_ns;               // of levels; nothing: as the tuner assumes
  uint32_t channels = 0;                              // 0: as the tuner assumes
  uint64_t buffer_bytes = plugin::kUsualBufferBytes;  // NCCL_BUFFSIZE
  bool nvswitch = false;
  bool nvls = false;
  bool chunk_sizes = false;
  uint64_t min_bytes = 8;
  uint64_t max_bytes = uint64_t{1} << 30U;
  std::string file;  // "": none
  // NCCL_ALGO and NCCL_PROTO, which NCCL applies before it calls the tuner.
  std::optional<std::string> nccl_algorithms;
  std::optional<std::string> nccl_protocols;
  // The variables that stood in for options that were not given: "HORING_TUNER_NICS=4".
  std::vector<std::string> from_environment;
  bool json = false;
};

// argv[0] is "tune".
[[nodiscard]] Parsed<TuneOptions> parse_tune_options(int argc, const char* const* argv);

// A communicator of NCCL's with CollNet connected on such nodes.
[[nodiscard]] plugin::CommonInputs inputs_of(const TuneOptions& options);
// What NCCL would allow there: of every type, with all of NCCL's releases taken together.
[[nodiscard]] plugin::Choices allowed_by_nccl(const TuneOptions& options,
                                              plugin::TunedCollective collective);
// Whether NCCL_ALGO and NCCL_PROTO leave it.
[[nodiscard]] bool nccl_settings_leave(const TuneOptions& options,
                                       plugin::TunedCollective collective,
                                       plugin::Choice choice);
// That, or what our tuner can force.
[[nodiscard]] plugin::Choices allowed_by(const TuneOptions& options,
                                         plugin::TunedCollective collective);

}  // namespace ho
