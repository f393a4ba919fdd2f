// What each kernel is given: one struct, by value. Addresses are numbers: the test double turns
// those of its devices into addresses of the host.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "device/kernels/step_arithmetic.hpp"

namespace ho::device {

inline constexpr unsigned kThreads = 256;  // of a block, in every kernel

struct SummedRange {
  uint64_t dst;
  uint64_t src;
  uint64_t incoming;
  uint64_t elements;
  uint64_t divisor;
};

// Kernels take 4 KiB of arguments.
inline constexpr uint32_t kMaxSummedRanges = 96;
struct SumArguments {
  SummedRange range[kMaxSummedRanges];
  uint32_t count;
  uint32_t op;                      // a ReduceOp
  uint32_t rounds_before_division;  // as the host does it where sums are of the data's own type
};
static_assert(sizeof(SumArguments) <= 4096);

struct PremultiplyArguments {
  uint64_t dst;
  uint64_t src;
  uint64_t elements;
  double factor;
};

struct ConvertArguments {
  uint64_t dst;
  uint64_t src;
  uint64_t elements;
};

struct CopiedRange {
  uint64_t dst;
  uint64_t src;
  uint64_t bytes;
};

inline constexpr uint32_t kMaxCopiedRanges = 160;
struct CopyArguments {
  CopiedRange range[kMaxCopiedRanges];
  uint32_t count;
};
static_assert(sizeof(CopyArguments) <= 4096);

struct ZeroArguments {
  uint64_t dst;
  uint64_t bytes;
};

// The type of a parameter that an update writes.
enum class ParameterKind : uint32_t { kNone = 0, kFloat32 = 1, kFloat16 = 2, kBfloat16 = 3 };

// What all rules read and write. `control` is the address of a StepControl: gradients are
// multiplied by its factor, and nothing is done where it says that the step is left out.
struct UpdateArguments {
  uint64_t control;
  uint64_t master;
  uint64_t gradient;
  uint64_t parameter;
  uint64_t elements;
  ParameterKind parameter_kind;
};

struct AdamWArguments {
  UpdateArguments update;
  uint64_t momentum;
  uint64_t variance;
  double learning_rate;  // corrected, with epsilon, by what the control says
  double epsilon;
  float decay;
  float beta_1;
  float rest_1;
  float beta_2;
  float rest_2;
};

struct SgdArguments {
  UpdateArguments update;
  uint64_t velocity;  // 0: no momentum
  float learning_rate;
  float momentum;
  float weight_decay;
};

// A norm is made in two launches: GradientSums of each tile at `parts`, then of all parts, added to
// those at `sums`.
struct NormArguments {
  uint64_t values;
  uint64_t elements;
  uint64_t parts;
  uint64_t first_index;  // what the first element counts as
  float scale;
};

struct FinishNormArguments {
  uint64_t parts;
  uint64_t count;  // of parts
  uint64_t sums;
};

struct DecideArguments {
  StepLimits limits;
  uint64_t control;
};

// A hash is made in two launches too: a number for each tile at `parts`, then one of all parts.
struct HashArguments {
  uint64_t values;
  uint64_t bytes;
  uint64_t first_word;  // what the first word counts as
  uint64_t parts;       // of uint64_t
};

struct FinishHashArguments {
  uint64_t parts;
  uint64_t count;  // of parts
  uint64_t result;
};

}  // namespace ho::device
