// What a perf program found, before it is shown as a table (table.hpp) or as JSON
// (json_report.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/harness/link_limit.hpp"
#include "bench/perf/measure.hpp"

namespace ho::perf {

inline constexpr int kNoRoot = -1;  // as nccl-tests writes it

// The job, for the header lines.
struct Job {
  harness::Collective collective = harness::Collective::kAllGather;
  int32_t ranks = 0;
  int32_t rails = 0;   // of the library: ranks that have a peer in every group
  uint32_t nics = 0;   // network interfaces that a node has for them, the fewest; 0: not known
  std::string groups;  // "4x4", "3+5+1"
  int32_t group_count = 0;
  std::string emulation;
  double startup_ms = 0.0;  // creating the communicator, the slowest rank
  harness::LinkLimit limit;
  std::vector<std::string> rank_lines;  // --groups: one line per rank
};

// "4 rails over 1 NIC per node", "4 rails, each a NIC", "2 rails over 2 of 9 NICs per node".
[[nodiscard]] std::string rails_text(const Job& job);

// "device: timed from ... until ...": what buffers are, and of a device's what is timed.
[[nodiscard]] std::string memory_text(Memory memory);

// One size of one case, in the placements that were requested (one of them at least).
struct Row {
  Case what;
  std::optional<Measurement> out_of_place;
  std::optional<Measurement> in_place;

  [[nodiscard]] std::vector<const Measurement*> measured() const;
};

[[nodiscard]] std::string redop_name(const Case& what);  // "none" where nothing is reduced

struct Summary {
  uint64_t wrong = 0;
  bool checked = false;
  double average_bus_gbps = 0.0;
  uint32_t unclaimed_shares = 0;  // above 1, in measurements that claim none
};
[[nodiscard]] Summary summarize(const std::vector<Row>& rows);

}  // namespace ho::perf
