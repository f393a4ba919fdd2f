// paro-bench's table of memory by state. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "bench/paro_bench/outcome.hpp"

namespace paro::bench {

// A row per system: what each state took when all of them took most, beside the prediction.
[[nodiscard]] std::string memory_text(std::span<const Outcome> outcomes);
// Bytes by state. Keys stay; new ones may come.
[[nodiscard]] nlohmann::json memory_json(const MemoryUse& use);

}  // namespace paro::bench
