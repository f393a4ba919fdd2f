// Collectives of a set of ranks that this rank is one of: what moves the data of states. Two
// implementations: libhoring (horing_collectives.hpp), of which domains.hpp makes one for each set,
// and NCCL on devices (nccl_collectives.hpp). Whoever moves data takes what he gets, and never asks
// what it is.
//
// A collective is begun, is under way while its caller computes, and is joined. Until then its
// buffers and its Pending stay where they are. All ranks of a set begin the same collectives in
// the same order. Sums are in place; libhoring sums 16-bit numbers in fp32, NCCL in 16 bits.
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
  // Of device memory (cudaStream_t; nullptr: the default stream): buffers are used after what it
  // was given before.
  void* stream = nullptr;
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
  // The root's elements, at the same place on all.
  [[nodiscard]] virtual ho::Status begin_broadcast(const CollectiveOptions& options,
                                                   ho::DType dtype,
                                                   void* all,
                                                   size_t count,
                                                   size_t root,
                                                   Pending& pending) = 0;

  // Never blocks: it is over, well or not.
  [[nodiscard]] virtual bool over(Pending& pending) = 0;
  // Blocks, at most so long (0: until its deadline). false: it is under way yet. Else it has ended,
  // well or with its error, and has no request any more.
  [[nodiscard]] virtual ho::Result<bool> join(Pending& pending, uint64_t timeout_ms) = 0;
  // Of device memory: what the stream is given from now on comes after the collective, which must
  // still be joined. May wait for other ranks, but not for the device, at most so long (0: until
  // its deadline). false: not yet. An error, where it has failed: the stream does not wait.
  [[nodiscard]] virtual ho::Result<bool> join_stream(Pending& pending,
                                                     void* stream,
                                                     uint64_t timeout_ms) = 0;
  // Ok, or why no collective can be begun any more: the first cause, the same on all ranks. Never
  // blocks; any thread.
  [[nodiscard]] virtual ho::Status status() = 0;
};

}  // namespace paro
