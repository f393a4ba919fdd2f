// Models by name or as "params=7e9,trainable=4e8,layers=32". Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "cost/memory.hpp"

namespace paro {

struct ModelSpec {
  std::string text;  // as it was given
  ModelSize size;
  uint32_t layers = 0;
  uint32_t sharing_units = 0;  // beside the layers and the unit that they share
  uint32_t sequence = 0;       // tokens of a sample; 0: not known
};

// "llama-7b", "llama-65b", or a list of params=, trainable= (all of them unless given), layers=,
// sequence=, shared= (parameters of a unit beside the layers that others share) and sharing= (so
// many of them, 1 unless given). A name may stand in front of a list that changes some of it.
[[nodiscard]] ho::Result<ModelSpec> parse_model(std::string_view text);

}  // namespace paro
