// One call of one rank as a value: what to do with which buffers, by when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "base/index.hpp"
#include "os/clock.hpp"
#include "plan/plan.hpp"

namespace ho {

struct Call {
  Collective collective = Collective::kAllGather;
  bool point_to_point = false;  // then collective says nothing
  Algorithm algorithm = Algorithm::kHoRing;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  bool fp32_sums = false;  // 16-bit data only
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  uint64_t count = 0;                  // elements, as the caller gave them; the sum for ..._counts
  std::vector<uint64_t> block_counts;  // elements of each block of the plan
  uint16_t digest = 0;                 // of root and counts per rank; ranks compare it
  GlobalRank self;
  uint32_t world_size = 1;
  uint16_t communicator = 0;
  uint8_t channel = 0;
  uint32_t sequence = 0;  // in its channel, from 1; given by the engine
  Deadline deadline = Deadline::max();
  std::chrono::milliseconds timeout{0};  // what the deadline was made from, for messages

  // "all_reduce #12"
  [[nodiscard]] std::string name() const;
};

}  // namespace ho
