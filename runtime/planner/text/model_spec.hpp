// Models by name, by a Hugging Face config.json, or as "params=7e9,trainable=4e8,layers=32". Pure,
// but for reading that file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/option_names.hpp"
#include "base/status.hpp"
#include "cost/memory.hpp"
#include "model/transformer.hpp"

namespace paro {

struct ModelSpec {
  std::string text;  // as it was given
  ModelSize size;
  uint32_t layers = 0;
  uint32_t sharing_units = 0;  // beside the layers and the unit that they share
  uint32_t sequence = 0;       // tokens of a sample; 0: not known
  double adapters = 0;         // parameters of `size` beside the model's, and all that are trained
  // Its shapes, where they are known; `size` may have other parameters, as it was given.
  std::optional<Transformer> shape;
  bool is_round = false;  // `size` is
  ho::OptionNames named;  // in messages
};

// A name (llama-7b and llama-65b with the round numbers that they are called after, others with
// exact ones), the path of a config.json or of the folder that has it, or a list of params=,
// trainable= (all of them unless given), adapters= (beside them, and they alone trained), layers=,
// sequence=, shared= (parameters of a unit beside the layers that others share) and sharing= (so
// many of them, 1 unless given). A name or a path may stand in front of a list that changes some of
// it.
[[nodiscard]] ho::Result<ModelSpec> parse_model(std::string_view text,
                                                const ho::OptionNames& named = {});

}  // namespace paro
