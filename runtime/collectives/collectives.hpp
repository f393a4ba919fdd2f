// Collectives of a set of ranks that this rank is one of: what moves the data of states. One
// implementation today, libhoring over host memory (horing_collectives.hpp); domains.hpp makes one
// for each set. Whoever moves data takes what he gets from there, and never asks what it is.
//
// A collective is begun, is under way while its caller computes, and is joined. Until then its
// buffers and its Pending stay where they are. All ranks of a set begin the same collectives in
// the same order. Sums are in place; 16-bit numbers are summed in fp32.
//
// Errors are those of the library behind it, without a word of what the collective was for. To
// abort all that is under way, on all ranks: Domains::abort().
//
// Threads: one at a time.
#pragma once

#include <horing.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.hpp"
#include "base/status.hpp"

namespace paro {

// What all collectives of a runner have in common.
struct CollectiveOptions {
  ho_algorithm algorithm = HO_ALGORITHM_HO_RING;  // for an implementation that has a choice
  uint64_t timeout_ms = 0;                        // 0: the communicator's
};

// A collective under way, in its caller's hands.
struct Pending {
  void* request = nullptr;                  // the implementation's; nullptr: not begun, or joined
  ho_op_report report = HO_OP_REPORT_INIT;  // what it did, once it is joined
};

class Collectives {
 public:
  Collectives() = default;
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;
  virtual ~Collectives() = default;

  // Everybody's elements, `counts` by rank, one rank's after the other's into `all`. `mine` may be
  // their place there.
  [[nodiscard]] virtual ho::Status begin_all_gather(const CollectiveOptions& options,
                                                    ho::DType dtype,
                                                    const void* mine,
                                                    void* all,
                                                    std::span<const size_t> counts,
                                                    Pending& pending) = 0;
  // Sums of `all`, which lie as above: this rank's part of them ends up at `mine`, its place there.
  // The rest of `all` is undefined afterwards.
  [[nodiscard]] virtual ho::Status begin_reduce_scatter(const CollectiveOptions& options,
                                                        ho::DType dtype,
                                                        void* all,
                                                        void* mine,
                                                        std::span<const size_t> counts,
                                                        Pending& pending) = 0;
  // Sums of all elements.
  [[nodiscard]] virtual ho::Status begin_all_reduce(const CollectiveOptions& options,
                                                    ho::DType dtype,
                                                    void* all,
                                                    size_t count,
                                                    Pending& pending) = 0;

  // Never blocks: it is over, well or not.
  [[nodiscard]] virtual bool over(Pending& pending) = 0;
  // Blocks, at most so long (0: until its deadline). false: it is under way yet. Else it has ended,
  // well or with its error, and has no request any more.
  [[nodiscard]] virtual ho::Result<bool> join(Pending& pending, uint64_t timeout_ms) = 0;
};

}  // namespace paro
