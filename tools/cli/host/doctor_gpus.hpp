// The GPUs of a job for `horing doctor`: which its ranks see, and how fast their copies are.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace ho {

struct GpuFindings {
  // Arrays of objects, with the keys of `horing doctor --json`.
  nlohmann::json devices = nlohmann::json::array();
  nlohmann::json pairs = nlohmann::json::array();
  std::vector<uint32_t> without;  // ranks that see none
  std::string why_none;           // of rank 0, where no rank sees one
};

// Collective. A GPU that several ranks see is measured by the lowest; on each host one rank at a
// time.
[[nodiscard]] Result<GpuFindings> examine_gpus(Communicator& communicator);

// One line about GPUs that could not be measured; "" where there are none.
[[nodiscard]] std::string failures_of(const GpuFindings& findings);
[[nodiscard]] std::string to_string(const GpuFindings& findings);
[[nodiscard]] nlohmann::json to_json(const GpuFindings& findings);

}  // namespace ho
