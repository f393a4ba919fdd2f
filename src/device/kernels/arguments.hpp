// What each kernel is given: one struct, by value. Addresses are numbers: the test double turns
// those of its devices into addresses of the host.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"

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

// The type of a parameter that an AdamW step writes.
enum class ParameterKind : uint32_t { kNone = 0, kFloat32 = 1, kFloat16 = 2, kBfloat16 = 3 };

struct AdamWArguments {
  uint64_t master;
  uint64_t momentum;
  uint64_t variance;
  uint64_t gradient;
  uint64_t parameter;
  uint64_t elements;
  uint32_t parameter_kind;
  float gradient_scale;
  float decay;
  float beta_1;
  float rest_1;
  float beta_2;
  float rest_2;
  float step_size;
  float epsilon;
};

// A squared norm, or part of one. What is not finite is counted and stays out of the sum.
struct SquaredNorm {
  double squared;
  uint64_t not_finite;
};

// A norm or a hash is made in two launches: a part for each tile at `parts`, then one of all parts.
struct NormArguments {
  uint64_t values;
  uint64_t elements;
  uint64_t parts;  // of SquaredNorm
  float scale;
};

struct HashArguments {
  uint64_t values;
  uint64_t elements;
  uint64_t first_index;
  uint64_t parts;  // of uint64_t
};

struct FinishArguments {
  uint64_t parts;
  uint64_t count;  // of parts
  uint64_t result;
};

}  // namespace ho::device
