// Transformers from the config.json that Hugging Face's transformers writes beside a model's
// weights. Pure.
//
// What a file leaves out has the default that transformers has for it, but for the sizes that make
// a model what it is (hidden size, layers, heads, widths, vocabulary), which must be there. The
// parameters come out as transformers counts them: causal models with their head, BERT with that of
// masked words, T5 as encoder and decoder; buffers are none.
#pragma once

#include <string_view>
#include <vector>

#include "base/option_names.hpp"
#include "base/status.hpp"
#include "model/transformer.hpp"

namespace paro {

// Of layers, heads, experts and so on no file may have more; so nothing overflows.
inline constexpr double kMaxModelLayers = 1024;
inline constexpr double kMaxModelSize = 1U << 24U;
inline constexpr double kMaxModelParameters = 1e15;

// model_type of each family that is understood.
[[nodiscard]] std::vector<std::string_view> known_families();

// `name` stands for the file in errors, which are one line: what was understood, what is missing or
// cannot be, and what to do.
[[nodiscard]] ho::Result<Transformer> parse_config(std::string_view text,
                                                   std::string_view name,
                                                   const ho::OptionNames& named = {});

}  // namespace paro
