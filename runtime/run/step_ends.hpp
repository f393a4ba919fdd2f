// What each rank does after a micro-batch that is not a step's last: it goes on, or ends the step.
//
// A rank that ends its step early starts no more collectives of micro-batches, and the others would
// wait for them until their deadlines. So every rank tells what it does next on a communicator on
// which nothing waits for these collectives, and looks for what the others tell wherever it waits.
// Each all-gather brings all answers to all ranks, so they all find the same difference.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/status.hpp"
#include "collectives/communicator.hpp"

namespace paro {

class StepEnds {
 public:
  enum class Next : uint8_t { kMicroBatch, kStepEarly, kDiscard };

  // `comm`, borrowed, numbers its ranks as the job does; nullptr: this rank is alone. A timeout of
  // 0 is the communicator's.
  StepEnds(ho_comm* comm, uint64_t timeout_ms) : comm_(comm), timeout_ms_(timeout_ms) {}
  StepEnds(const StepEnds&) = delete;
  StepEnds& operator=(const StepEnds&) = delete;
  // Waits, within their deadlines, for answers that have not come.
  ~StepEnds() = default;

  // After so many micro-batches of the present step. Never blocks.
  [[nodiscard]] ho::Status tell(uint32_t micro_batches, Next next);
  // Whether answers are to come.
  [[nodiscard]] bool waits() const { return !announced_.empty(); }
  // kMismatch, on all ranks, where they do not do the same. What comes later than this call, and
  // what keeps it from coming, is left to others.
  [[nodiscard]] ho::Status look();
  // Blocks until all answers have come.
  [[nodiscard]] ho::Status finish();

 private:
  struct Announced {
    std::array<uint64_t, 2> mine{};
    std::vector<uint64_t> all;
    GatheredValues gathered;  // goes first: it waits
  };
  [[nodiscard]] ho::Status compare(const std::vector<uint64_t>& all) const;
  // Blocks for the first.
  [[nodiscard]] ho::Status take_first();

  ho_comm* comm_;
  uint64_t timeout_ms_;
  std::deque<Announced> announced_;
};

}  // namespace paro
