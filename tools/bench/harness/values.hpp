// Test data whose result is a formula. An element's value is a function of (rank, place in that
// rank's input); the expected output is computed from the same function, so every byte on every
// rank can be checked without another collective.
//
// The function repeats with a prime period in the place, so that one short table describes any
// size and a chunk that lands in the wrong place shows (no chunk size is a multiple of the
// period). All-gather moves arbitrary bits. Reductions use values that every partial sum, product
// or average represents exactly in the element type, whatever the order: the check is for equality.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.hpp"

namespace ho::harness {

inline constexpr size_t kPeriod = 4093;

// kPeriod elements; element i of a buffer that starts at place p is table[(p + i) % kPeriod].
class Table {
 public:
  Table(size_t element_bytes, std::vector<std::byte> bytes);
  void fill(std::byte* to, uint64_t first_index, size_t count) const;
  // How many of count elements differ.
  [[nodiscard]] uint64_t count_wrong(const std::byte* from,
                                     uint64_t first_index,
                                     size_t count) const;

 private:
  size_t element_bytes_;
  std::vector<std::byte> bytes_;
};

// What `rank` contributes to an all-gather.
[[nodiscard]] Table gather_input(DType dtype, uint32_t rank);
// The factor of `rank` where the operation takes one.
[[nodiscard]] int64_t scale_of(uint32_t rank);
// What `rank` contributes to a reduction over `world_size` ranks.
[[nodiscard]] Table reduce_input(DType dtype, ReduceOp op, uint32_t world_size, uint32_t rank);
// What the reduction gives.
[[nodiscard]] Table reduce_expected(DType dtype, ReduceOp op, uint32_t world_size);

// A whole number as an element: little endian, element_bytes() long. `value` must be exact in the
// type; floats take any sign and size within range.
[[nodiscard]] uint64_t encode(DType dtype, int64_t value);

}  // namespace ho::harness
