// What a call's arguments mean on one rank of a communicator, and whether they can work: how much
// its buffers hold, where they may overlap, what an algorithm is chosen by. Pure.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "base/index.hpp"
#include "base/status.hpp"
#include "comm/call_arguments.hpp"
#include "comm/selection.hpp"
#include "exec/transfer.hpp"

namespace ho {

// What one rank's buffers hold, in bytes.
struct BufferUse {
  uint64_t send = 0;
  uint64_t recv = 0;
  // In place: this far in one buffer is where the other one begins.
  uint64_t into_send = 0;
  uint64_t into_recv = 0;
  bool can_be_in_place = true;
};

class CallShape {
 public:
  // `largest_group`: ranks of the largest one.
  CallShape(GlobalRank self, uint32_t world_size, uint32_t largest_group)
      : self_(self), world_size_(world_size), largest_group_(largest_group) {}

  // An error names the collective.
  [[nodiscard]] Status check(const CollectiveCall& call) const;
  // The same of a send or receive.
  [[nodiscard]] Status check(const Transfer& transfer) const;

  // Of a call that has been checked, in elements.
  [[nodiscard]] uint64_t total_count(const CollectiveCall& call) const;
  [[nodiscard]] BufferUse buffer_use(const CollectiveCall& call) const;
  [[nodiscard]] SelectionInput selection_input(const CollectiveCall& call) const;
  // Elements that each rank's block may have.
  [[nodiscard]] uint64_t most_per_rank(DType dtype) const;

  [[nodiscard]] GlobalRank self() const { return self_; }
  [[nodiscard]] uint32_t world_size() const { return world_size_; }

 private:
  [[nodiscard]] Status check_buffers(const CollectiveCall& call) const;

  GlobalRank self_;
  uint32_t world_size_;
  uint32_t largest_group_;
};

}  // namespace ho
