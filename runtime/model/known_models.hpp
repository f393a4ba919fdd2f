// Models by name. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "model/transformer.hpp"

namespace paro {

[[nodiscard]] std::vector<std::string_view> known_models();

// An error names those that are near.
[[nodiscard]] ho::Result<Transformer> known_model(std::string_view name);

}  // namespace paro
