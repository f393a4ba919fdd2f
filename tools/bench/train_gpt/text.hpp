// The bytes that are trained on, and which of them a step reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace paro::gpt {

class Text {
 public:
  // Of the files, one after the other; of none: all that lie under /usr/share/common-licenses. At
  // least `least` bytes.
  [[nodiscard]] static ho::Result<Text> read(std::vector<std::string> files, uint64_t least);

  [[nodiscard]] uint64_t size() const { return bytes_.size(); }
  // The same for the same text.
  [[nodiscard]] uint64_t hash() const;
  // Appends sample number `index` of a training with this seed: `length` bytes from a place that
  // follows from the two alone. So samples of a step are the same however many ranks share them,
  // and the position of a training is one number.
  void append_sample(uint64_t seed,
                     uint64_t index,
                     uint32_t length,
                     std::vector<int64_t>& samples) const;

 private:
  std::string bytes_;
};

}  // namespace paro::gpt
