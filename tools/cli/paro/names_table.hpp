// The names that `paro plan` knows. Pure.
#pragma once

#include <string>

namespace paro::tool {

// All models, GPUs and machines, with what they stand for and its source, as tables.
[[nodiscard]] std::string names_text();

}  // namespace paro::tool
