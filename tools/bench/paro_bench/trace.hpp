// A step of every system as Chrome trace events, which Perfetto shows. Pure, but for bringing the
// ranks' spans together.
#pragma once

#include <cstdint>
#include <horing/communicator.hpp>
#include <set>
#include <string>
#include <vector>

#include "bench/paro_bench/drive.hpp"

namespace paro::bench {

// One rank's action.
struct TraceEvent {
  uint32_t rank = 0;
  uint32_t action = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

class TraceFile {
 public:
  // A process per rank, a row per track; systems one after the other.
  void add(const std::string& system, const StepTrace& step, std::vector<TraceEvent> events);
  [[nodiscard]] std::string text() const;

 private:
  void name(uint32_t rank);

  std::string events_;
  std::set<uint32_t> named_;  // ranks
  int64_t next_ns_ = 0;       // where the next system begins
};

// Collective: all ranks' events, by clocks that showed zero at once. Consistency on all ranks.
[[nodiscard]] std::vector<TraceEvent> events_of_all(horing::Communicator& job,
                                                    const StepTrace& step);

}  // namespace paro::bench
