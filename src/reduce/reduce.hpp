// Element-wise kernels on host memory (Highway; the best instruction set is chosen at run time).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.hpp"

namespace ho {

// dst[i] = a[i] (op) b[i] for i < count. dst may be a or b itself, otherwise the ranges must not
// overlap. No alignment needed. kAvg adds; the division is scale_average's. Integers wrap.
// fp16, bf16 and fp8 are computed in fp32 and rounded to nearest even; max and min of NaN and a
// number give NaN. A sum or product past the largest finite number is infinity, in e4m3 (which has
// no infinity) NaN: it never saturates, so an overflow stays visible. kPremulSum adds too; the
// factors are premultiply's. reduction_supported(dtype, op) must hold.
void reduce(DType dtype, ReduceOp op, void* dst, const void* a, const void* b, size_t count);

// data[i] = data[i] / divisor (integers: truncated toward zero; floats: rounded once, for divisors
// up to 2048 in 16-bit types and 2^24 in fp32). A divisor of 0 or 1 leaves the data as it is.
void scale_average(DType dtype, void* data, size_t count, uint64_t divisor);

// dst[i] = src[i] * factor, for floating types but fp8; dst may be src itself. The factor is first
// rounded to the type that it is computed in (fp32, of doubles fp64), the product once to the
// type. NaN and infinity, of either, go as multiplication has them.
void premultiply(DType dtype, void* dst, const void* src, size_t count, double factor);

// The option "16-bit data, fp32 sums": kFloat16 and kBfloat16 only.
// dst[i] = a[i] (op) widen(b[i]), a and dst in fp32; dst may be a.
void reduce_widening(
    DType narrow, ReduceOp op, float* dst, const float* a, const void* b, size_t count);
// dst[i] = widen(a[i]) (op) widen(b[i]), both 16-bit.
void reduce_widening_pair(
    DType narrow, ReduceOp op, float* dst, const void* a, const void* b, size_t count);
void widen(DType narrow, float* dst, const void* src, size_t count);
// Rounded to nearest even; dst may be the same address as src (the narrow copy then fills its first
// half).
void narrow(DType narrow, void* dst, const float* src, size_t count);

// "AVX2", "SSE4", ...: what the kernels run on.
[[nodiscard]] const char* reduce_target_name();

}  // namespace ho
