// What a running job says of its cluster. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "planner/text/cluster_facts.hpp"

namespace paro::tool {

// Rates over all links of a kind, in a job whose links are all equally busy.
struct RateSpan {
  double slowest = 0;  // 0: there is no such link
  double median = 0;   // of an even number the lower: some had the machine to themselves
  double fastest = 0;
};
[[nodiscard]] RateSpan span_of(std::vector<double> rates);

struct MeasuredJob {
  std::vector<uint32_t> group_sizes;
  uint32_t rails = 0;  // one per NIC
  RateSpan intra;      // what a rank sends to one other rank of its group
  RateSpan inter;      // what a rail carries between two groups
  // Seconds of a collective of next to no bytes; 0: there is none.
  double intra_call_s = 0;
  double inter_call_s = 0;
  double world_call_s = 0;
  std::optional<double> slowdown = {};  // of measure_slowdown()
};

// Of a computation and of collectives, alone and at once, each rank's longest.
struct OverlapSeconds {
  double computation = 0;
  double collectives = 0;
  double both = 0;
};
// Of what could hide, the shorter of the two, the share that comes back: from 0, as long as the
// longer one, to 1, as long as one after the other.
[[nodiscard]] double slowdown_of(const OverlapSeconds& seconds);

// One rate for each kind of link. Between nodes the slowest: a ring over nodes is as fast as its
// slowest link, and that one is slow for good. Inside nodes the median: there links are equal but
// for what the processors do meanwhile, and on a busy machine the slowest of many short streams
// depends on that; a recommendation would change with it from one call to the next.
//
// An error where groups are unequal. Appends to `notes` what the user should know about the
// measurement.
[[nodiscard]] ho::Result<ClusterFacts> facts_of(const MeasuredJob& job,
                                                std::vector<std::string>& notes);

}  // namespace paro::tool
