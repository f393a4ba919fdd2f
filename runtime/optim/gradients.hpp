// Gradients and parameters between the types that a framework computes with and fp32.
//
// Parameters and gradients are of a compute type: fp32, fp16 or bf16. Whatever must not lose
// places (scaling, norms, updates) is done in fp32, whatever sums many numbers in double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/dtype.hpp"

namespace paro {

// Whether `dtype` can be a compute type; only such types may be given to the functions below.
[[nodiscard]] bool is_compute_type(ho::DType dtype);

// dst[i] = src[i] * factor, src of the compute type; the factor and the product are rounded to
// fp32. src may lie at dst itself if it is fp32, otherwise they must not overlap.
void unscale(ho::DType dtype, const void* src, double factor, std::span<float> dst);

// The squared length of a vector, in parts that can be added up over spans and ranks. Numbers that
// are not finite are counted and stay out of the sum.
struct Norm {
  double squared = 0;
  uint64_t not_finite = 0;
  Norm& operator+=(const Norm& other) {
    squared += other.squared;
    not_finite += other.not_finite;
    return *this;
  }
  friend bool operator==(const Norm&, const Norm&) = default;
};

// The order of the additions depends on nothing but the span's length.
[[nodiscard]] Norm norm_of(std::span<const float> values);

// The first of `count` numbers of the compute type that is not finite.
struct NotFinite {
  size_t index = 0;
  bool nan = false;  // no infinity
};
[[nodiscard]] std::optional<NotFinite> first_not_finite(ho::DType dtype,
                                                        const void* data,
                                                        size_t count);

// What to multiply gradients of length `norm` by so that they are not longer than `max_norm`: 1 or
// less; 1 where max_norm is 0 or less (no limit).
[[nodiscard]] double clip_factor(double norm, double max_norm);

// into[i] += from[i], both of the compute type, added in fp32 and rounded.
void accumulate(ho::DType dtype, void* into, const void* from, size_t count);

// sums[i] += from[i] of the compute type: nothing is rounded but the fp32 sum.
void accumulate(ho::DType dtype, std::span<float> sums, const void* from);

// data[i] of fp32 rounded to the compute type, in place: the results lie one after the other from
// the address on.
void round_in_place(ho::DType dtype, void* data, size_t count);

// dst[i] = src[i] rounded to the compute type, to nearest even. They must not overlap.
void round_to(ho::DType dtype, std::span<const float> src, void* dst);

}  // namespace paro
