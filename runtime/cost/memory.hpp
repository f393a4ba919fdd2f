// Bytes of model states per rank. Pure.
//
// A state takes its bytes per parameter times the parameters, over the ranks that share one copy:
//   p P / d(parameters) + q P' / d(gradients) + r P' / d(optimizer),  d(N) = 1, d(I) = m, d(G) = n
// with P parameters, P' of them trained, groups of m ranks in a world of n. In mixed precision with
// Adam p = q = 2 and r = 12: an fp32 master, momentum and variance (PaRO, arXiv 2310.06003).
#pragma once

#include <cstdint>

#include "strategy/strategy.hpp"

namespace paro {

struct ModelSize {
  double parameters = 0;  // P
  double trainable = 0;   // P'
  // What units compute with that is another unit's (a head with the embedding's), counted once for
  // each of them: held once, gathered and reduced once more.
  double shared = 0;            // S
  double shared_trainable = 0;  // S', of them
};

struct BytesPerParameter {
  double parameter = 2;
  double gradient = 2;
  double optimizer = 12;
  // What a rank holds of a sum over micro-batches, where that is wider than what is sent (fp32 for
  // gradients of 16 bits); 0: as `gradient`.
  double gradient_sum = 0;
  // What a backward pass writes a gradient in, where it is sent in more; 0: as `gradient`.
  double gradient_written = 0;
};

struct WorldShape {
  uint32_t group_count = 1;  // g
  uint32_t group_size = 1;   // m, equal in all groups
  [[nodiscard]] uint32_t ranks() const { return group_count * group_size; }
};

struct StateBytes {
  double parameters = 0;
  double gradients = 0;
  double optimizer = 0;
  [[nodiscard]] double total() const { return parameters + gradients + optimizer; }
};

// Ranks that share one copy at that scope: 1, m or n.
[[nodiscard]] double sharers(Scope scope, const WorldShape& world);

[[nodiscard]] StateBytes state_bytes(const Strategy& strategy,
                                     const ModelSize& model,
                                     const BytesPerParameter& bytes,
                                     const WorldShape& world);

}  // namespace paro
