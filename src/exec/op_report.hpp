// What one operation moved and where its time went, on one rank.
#pragma once

#include <cstdint>

#include "plan/plan.hpp"

namespace ho {

struct OpReport {
  Algorithm algorithm = Algorithm::kHoRing;
  uint64_t intra_sent_bytes = 0;
  uint64_t intra_received_bytes = 0;
  uint64_t inter_sent_bytes = 0;
  uint64_t inter_received_bytes = 0;
  uint64_t total_ns = 0;
  uint64_t inter_ns = 0;    // from the first message between groups to the end of the last
  uint64_t intra_ns = 0;    // spent moving or adding pieces inside the group
  uint64_t overlap_ns = 0;  // the part of intra_ns within inter_ns
  uint64_t wait_ns = 0;     // asleep

  // Adds what a part of the operation before this one has moved and taken.
  void add_earlier(const OpReport& part) {
    intra_sent_bytes += part.intra_sent_bytes;
    intra_received_bytes += part.intra_received_bytes;
    inter_sent_bytes += part.inter_sent_bytes;
    inter_received_bytes += part.inter_received_bytes;
    total_ns += part.total_ns;
    inter_ns += part.inter_ns;
    intra_ns += part.intra_ns;
    overlap_ns += part.overlap_ns;
    wait_ns += part.wait_ns;
  }
};

}  // namespace ho
