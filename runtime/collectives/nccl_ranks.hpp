// What must be the same on all ranks before NCCL is used, compared in one place (pure).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.hpp"

namespace paro {

// One rank's, as numbers that ranks exchange.
struct NcclRankFacts {
  static constexpr size_t kNameWords = 8;
  uint64_t rank = 0;     // of the job
  uint64_t version = 0;  // of NCCL
  uint64_t device = 0;   // a hash: ranks with equal ones have one GPU
  uint64_t memory_bytes = 0;
  uint64_t host = 0;  // a hash: NCCL takes ranks with equal ones for neighbours
  // NCCL takes several ranks on one GPU (NCCL_MULTI_RANK_GPU_ENABLE).
  uint64_t shares_device = 0;
  std::array<uint64_t, kNameWords> name{};  // of the GPU's model

  [[nodiscard]] static std::array<uint64_t, kNameWords> pack(const std::string& name);
  [[nodiscard]] std::string model() const;
};
inline constexpr size_t kNcclFactWords = sizeof(NcclRankFacts) / sizeof(uint64_t);
static_assert(kNcclFactWords == 6 + NcclRankFacts::kNameWords);

// kMismatch: two ranks differ, both named, and what to do. kInvalidArgument: two have one GPU.
[[nodiscard]] ho::Status check_equal(std::span<const NcclRankFacts> ranks);

}  // namespace paro
