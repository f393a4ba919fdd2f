// A checkpoint as text. Pure.
#pragma once

#include <string>

#include "checkpoint/manifest.hpp"

namespace paro::tool {

[[nodiscard]] std::string checkpoint_text(const std::string& path,
                                          const checkpoint::Manifest& manifest);
[[nodiscard]] std::string checkpoint_json(const std::string& path,
                                          const checkpoint::Manifest& manifest);

}  // namespace paro::tool
