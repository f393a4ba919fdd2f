// A checkpoint in words. Pure.
#pragma once

#include <string>

#include "checkpoint/manifest.hpp"

namespace paro::tool {

// "1.50 GB"
[[nodiscard]] std::string size_text(uint64_t bytes);
[[nodiscard]] std::string checkpoint_text(const std::string& path,
                                          const checkpoint::Manifest& manifest);
[[nodiscard]] std::string checkpoint_json(const std::string& path,
                                          const checkpoint::Manifest& manifest);

}  // namespace paro::tool
