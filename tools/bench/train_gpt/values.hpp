// Initial values from a safetensors file, as `paro checkpoint export` writes it.
#pragma once

#include <string>

#include "base/status.hpp"
#include "bench/train_gpt/gpt.hpp"

namespace paro::gpt {

[[nodiscard]] ho::Result<Values> read_values(const std::string& file);

}  // namespace paro::gpt
