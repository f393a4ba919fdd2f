// What training by a named optimizer in a named precision takes of a rank's memory. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/option_names.hpp"
#include "base/status.hpp"
#include "cost/memory.hpp"
#include "machine/machine.hpp"

namespace paro {

enum class OptimizerKind : uint8_t { kAdamW, kAdamW8Bit, kSgd, kSgdMomentum };
inline constexpr std::array kOptimizerNames{std::string_view("adamw"),
                                            std::string_view("adamw-8bit"),
                                            std::string_view("sgd"),
                                            std::string_view("sgd-momentum")};
[[nodiscard]] constexpr std::string_view to_string(OptimizerKind kind) {
  return kOptimizerNames.at(static_cast<size_t>(kind));
}

// Parameters and gradients have 4 bytes in fp32 and tf32 and else 2: with fp8, matrices are
// converted as they are used. Where they have 2 the optimizer keeps masters of 4. To it AdamW adds
// 8, with 8 bits 2 and a scale of 4 bytes for every 256 values (bitsandbytes), momentum 4.
[[nodiscard]] BytesPerParameter bytes_of(OptimizerKind optimizer, Precision precision);
// The same of elements of so many bytes: of wider ones than 4, states are as wide.
[[nodiscard]] BytesPerParameter bytes_of(OptimizerKind optimizer, double element_bytes);

// Memory of a GPU that no plan may count on.
struct Reserve {
  double context_bytes = 0.6e9;     // of the driver, of libraries that are loaded, of kernels
  double collective_bytes = 1.0e9;  // 2 of 4 MiB for each of 32 tracks, and the same for short
                                    // messages: some 0.3 GB of a NCCL communicator, of which a
                                    // rank has three
  double fragmented_share = 0.04;   // what an allocator holds in pieces that nothing fits
  [[nodiscard]] double bytes(double memory_bytes) const {
    return memory_bytes > 0 ? context_bytes + collective_bytes + fragmented_share * memory_bytes
                            : 0;
  }
};

struct Batch {
  uint32_t micro_batch = 1;   // sequences of a rank at once
  uint32_t accumulation = 1;  // micro-batches of a step
};

// The sequences of a rank in a step, or which numbers near `global_batch` it would do with.
[[nodiscard]] ho::Result<uint32_t> sequences_of_rank(uint32_t global_batch,
                                                     uint32_t data_ranks,
                                                     const ho::OptionNames& named = {});

// The largest micro-batch that divides the `sequences` and leaves at least `least` micro-batches
// (a pipeline's stages), of which the activations fit what is left; where none does, 1.
[[nodiscard]] Batch choose_batch(uint32_t sequences,
                                 double memory_left,
                                 double activations_of_sequence,
                                 uint32_t least = 1);

}  // namespace paro
