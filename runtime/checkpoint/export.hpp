// A checkpoint's parameters as one safetensors file that any program reads: whole tensors, by the
// framework's names where it gave some, else one per unit.
#pragma once

#include <cstdint>
#include <functional>

#include "checkpoint/reader.hpp"

namespace paro::checkpoint {

struct ExportOptions {
  ho::DType dtype = ho::DType::kFloat32;  // of what was trained; or kBfloat16, kFloat16
  bool with_optimizer = false;            // also "NAME.exp_avg" etc., fp32
  bool overwrite = false;
};

using Progress = std::function<void(uint64_t done_bytes, uint64_t all_bytes)>;

// Appears under its name when it is whole and on the disk. Returns its length.
[[nodiscard]] ho::Result<uint64_t> export_tensors(const Reader& reader,
                                                  const Path& file,
                                                  const ExportOptions& options,
                                                  const Progress& progress = {});

}  // namespace paro::checkpoint
