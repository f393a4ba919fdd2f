// The GPUs of a job for `horing doctor`: which its ranks see, and how fast their copies are.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace ho {

// As ranks send it to each other. Texts end with a zero.
struct GpuRow {
  uint32_t rank = 0;  // the lowest that sees it, which measures it
  int32_t number = 0;
  int32_t numa_node = -1;
  uint64_t memory_bytes = 0;
  std::array<char, 96> name{};
  std::array<char, 32> pci{};
  std::array<char, 48> uuid{};
  std::array<char, 64> driver{};
  std::array<char, 64> interface {};
  std::array<char, 48> nearness{};
  std::array<char, 320> failure{};           // "": it was measured
  std::array<double, 4> bytes_per_second{};  // by CopyKind, as far as they are no pairs'
};

struct GpuPairRow {
  uint32_t rank = 0;
  int32_t from = 0;
  int32_t to = 0;
  double bytes_per_second = 0;
};

struct GpuFindings {
  std::vector<GpuRow> gpus;
  std::vector<GpuPairRow> pairs;
  std::vector<std::string> host_of_rank;
  std::vector<uint32_t> without;  // ranks that see none
  std::string why_none;           // of rank 0, where it sees none
};

// Collective. A GPU that several ranks see is measured by the lowest; on each host one rank at a
// time.
[[nodiscard]] Result<GpuFindings> examine_gpus(Communicator& communicator);

// One line about GPUs that could not be measured; "" where there are none.
[[nodiscard]] std::string failures_of(const GpuFindings& findings);
[[nodiscard]] std::string to_string(const GpuFindings& findings);
[[nodiscard]] nlohmann::json to_json(const GpuFindings& findings);

}  // namespace ho
