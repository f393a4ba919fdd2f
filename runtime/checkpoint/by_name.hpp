// A checkpoint's tensors by their names, for a model that has them elsewhere: in other units, in
// another order, frozen where they were trained.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/reader.hpp"

namespace paro::checkpoint {

class ByName {
 public:
  // Borrows the reader. `tensors` are the model's, every element of `units` in one of them; each is
  // in the checkpoint, by name and with as many elements. Others of the checkpoint do not matter.
  [[nodiscard]] static ho::Result<ByName> make(const Reader& reader,
                                               const std::vector<NamedTensor>& tensors,
                                               const std::vector<UnitShape>& units);

  // Elements of a unit of the model: of its frozen array where `state` is kFrozen, else of its
  // trained one. What was frozen has a master now, and zeros as the optimizer's state.
  [[nodiscard]] ho::Result<std::vector<float>> read(uint32_t unit,
                                                    const std::string& state,
                                                    const std::vector<Range>& ranges) const;

 private:
  // Elements of an array of the model.
  struct SavedRange {
    Range range;
    NamedTensor saved;
  };
  using Array = std::pair<uint32_t, bool>;  // unit, and whether of its frozen array

  explicit ByName(const Reader& reader) : reader_(&reader) {}
  [[nodiscard]] ho::Status refuse(const std::string& what) const;
  [[nodiscard]] ho::Status check_coverage(const std::vector<UnitShape>& units);
  [[nodiscard]] ho::Status read_saved(const NamedTensor& saved,
                                      const std::string& state,
                                      uint64_t offset,
                                      std::span<float> to) const;

  const Reader* reader_;
  std::map<Array, std::vector<SavedRange>> ranges_;  // ascending
};

}  // namespace paro::checkpoint
