// One call of one rank as a value: what to do with which buffers, by when.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.hpp"
#include "base/index.hpp"
#include "device/work/work.hpp"
#include "os/clock.hpp"
#include "plan/plan.hpp"
#include "transport/frame.hpp"

namespace ho {

// How many elements each block of a plan has.
class BlockCounts {
 public:
  BlockCounts() = default;
  // All equal.
  explicit BlockCounts(uint64_t every) : every_(every) {}
  explicit BlockCounts(std::vector<uint64_t> each) : each_(std::move(each)) {}

  [[nodiscard]] uint64_t of(uint32_t block) const { return each_.empty() ? every_ : each_[block]; }
  [[nodiscard]] uint64_t largest() const {
    return each_.empty() ? every_ : *std::ranges::max_element(each_);
  }

 private:
  uint64_t every_ = 0;
  std::vector<uint64_t> each_;
};

// Which buffers are device memory. The others, and scratch, are memory that the host may touch.
struct DeviceBuffers {
  device::Work* work = nullptr;  // null: no buffer of this rank is device memory
  bool input = false;
  bool output = false;
  bool mixed = false;        // the other one is the host's
  bool adds_pinned = false;  // the device adds also where both operands are the host's
  // For kPremulSum: what the device multiplies the input by before anything is sent.
  std::optional<double> factor{};
};

struct Call {
  Collective collective = Collective::kAllGather;
  bool counts_per_pair = false;  // an all-to-all with counts per rank, both parts of it
  Algorithm algorithm = Algorithm::kHoRing;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  bool fp32_sums = false;  // 16-bit data only
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::shared_ptr<std::byte[]> scaled;  // input, where that is this rank's times its factor
  uint64_t scaled_bytes = 0;            // of it
  uint64_t count = 0;                   // elements, as the caller gave them; the sum for ..._counts
  BlockCounts block_counts;
  uint16_t digest = 0;    // the root, or of counts per rank, or with them of a label; ranks compare
  bool labelled = false;  // the caller has said what it is for
  GlobalRank self;
  uint32_t world_size = 1;
  uint16_t communicator = 0;
  uint8_t channel = 0;
  uint32_t sequence = 0;  // in its channel, from 1; given by the engine
  Deadline deadline = Deadline::max();
  std::chrono::milliseconds timeout{0};  // what the deadline was made from, for error texts
  DeviceBuffers device;
  std::shared_ptr<const void> owned;  // memory of the library's own that input or output lie in

  // "all_reduce #12"
  [[nodiscard]] std::string name() const;
  // What all of its messages begin with, and other ranks' must.
  [[nodiscard]] Frame frame() const;
};

// A call of one rank, as others compare it with theirs.
struct MadeCall {
  uint8_t channel = 0;
  uint32_t labelled = 0;  // its number among those with a label, from 1; 0: it has none
  Frame frame;
};

}  // namespace ho
