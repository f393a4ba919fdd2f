// What one rank holds of a flat buffer: the elements that it owns at a scope, one range after the
// other, found by their place in the whole.
#pragma once

#include <vector>

#include "base/dtype.hpp"
#include "layout/partition.hpp"
#include "state/memory.hpp"

namespace paro {

class Storage {
 public:
  // Zeroed.
  [[nodiscard]] static ho::Result<Storage> make(Ledger& ledger,
                                                Purpose purpose,
                                                const Partition& partition,
                                                Scope scope,
                                                ho::GlobalRank self,
                                                ho::DType dtype);

  // Ascending, none empty.
  [[nodiscard]] const std::vector<Range>& ranges() const { return ranges_; }
  [[nodiscard]] uint64_t count() const { return count_; }
  [[nodiscard]] ho::DType dtype() const { return dtype_; }
  // The element's address; it and those that follow in its range lie one after the other. nullptr
  // for an element that is not held.
  [[nodiscard]] std::byte* at(uint64_t element) const;
  // The same, of fp32.
  [[nodiscard]] float* floats_at(uint64_t element) const {
    return reinterpret_cast<float*>(at(element));
  }
  // All zero, of the type it was made with; on the memory's first stream.
  void zero();
  // From fp32 to a type that it computes with: rounded where they lie, one after the other, by the
  // memory's operations on a stream.
  void round_to(const Operations& operations, ho::DType dtype);

 private:
  Storage(std::vector<Range> ranges, ho::DType dtype, Buffer buffer);

  std::vector<Range> ranges_;
  std::vector<uint64_t> offsets_;  // by range, elements
  uint64_t count_ = 0;
  ho::DType made_dtype_;
  ho::DType dtype_;
  Buffer buffer_;
};

}  // namespace paro
