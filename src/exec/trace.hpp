// Slices for a Chrome/Perfetto trace: one per piece, on a track per rank and lane; and marks where
// rails fail over.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "plan/plan.hpp"
#include "transport/transport.hpp"

namespace ho {

struct TraceSlice {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  uint64_t bytes = 0;
  uint32_t sequence = 0;
  uint32_t step = 0;
  uint32_t piece = 0;
  uint32_t chunk = 0;
  uint32_t peer = 0;
  uint16_t phase = 0;
  Collective collective = Collective::kAllGather;
  OpKind kind = OpKind::kSend;
  Lane lane = Lane::kIntra;
  uint8_t rail = 0;
};

// Whether append_to() will be able to open this rank's file, which is created where there is none.
// What is in it stays.
[[nodiscard]] Status check_trace_file(const std::string& path, uint32_t rank);

class TraceBuffer {
 public:
  // At most this many slices are kept; later ones are counted and dropped.
  static constexpr size_t kMaxSlices = 1U << 20;

  void add(const TraceSlice& slice);
  // As the rails are used now: a mark for each whose links have left it, come back to it, or lost
  // or found their connections since the last call.
  void note_rails(std::span<const RailUse> rails, int64_t now_ns);
  // Adds this rank's slices to the file, which all ranks of the job share: a JSON array of Chrome
  // trace events. Ranks take turns under a lock; a file of another job is started afresh. Where an
  // earlier writer was killed, what it left is cut after its last whole event. "%r" in the path
  // becomes the rank.
  [[nodiscard]] Status append_to(const std::string& path, uint32_t rank, uint64_t job_id) const;

 private:
  struct RailMark {
    int64_t at_ns;
    size_t rail;
    RailUse use;
  };

  std::vector<TraceSlice> slices_;
  std::vector<RailUse> rails_;  // at the last call
  std::vector<RailMark> marks_;
  uint64_t dropped_ = 0;
};

}  // namespace ho
