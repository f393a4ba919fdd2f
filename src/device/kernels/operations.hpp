// The operations of reductions on numbers, kCount at a time: the choice between operations is made
// once for all of them, and the loops over them are unrolled.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/dtype.hpp"
#include "device/kernels/element.hpp"

// nvcc keeps arrays in registers only where every index is a constant.
#ifdef __CUDACC__
#define HORING_UNROLL _Pragma("unroll")
#define HORING_NO_UNROLL _Pragma("unroll 1")
#else
#define HORING_UNROLL
#define HORING_NO_UNROLL
#endif

namespace ho::device {

template <size_t kCount, typename Number, typename Operation>
HORING_DEVICE inline void each(const Number (&a)[kCount],
                               const Number (&b)[kCount],
                               Number (&out)[kCount],
                               const Operation& operation) {
  HORING_UNROLL
  for (size_t k = 0; k < kCount; ++k) {
    out[k] = operation(a[k], b[k]);
  }
}

// Sums and products wrap: they are computed without a sign, and in no type that C++ would widen to
// one with a sign.
template <size_t kCount, typename T>
HORING_DEVICE inline void combine_integers(ReduceOp op,
                                           const T (&a)[kCount],
                                           const T (&b)[kCount],
                                           T (&out)[kCount]) {
  using Wide = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  const auto wide = [](T value) { return static_cast<Wide>(value); };
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
    case ReduceOp::kPremulSum:
      break;
    case ReduceOp::kProd:
      return each(a, b, out, [&](T x, T y) { return static_cast<T>(wide(x) * wide(y)); });
    case ReduceOp::kMax:
      return each(a, b, out, [](T x, T y) { return x > y ? x : y; });
    case ReduceOp::kMin:
      return each(a, b, out, [](T x, T y) { return x < y ? x : y; });
    case ReduceOp::kBand:
      return each(a, b, out, [&](T x, T y) { return static_cast<T>(wide(x) & wide(y)); });
    case ReduceOp::kBor:
      return each(a, b, out, [&](T x, T y) { return static_cast<T>(wide(x) | wide(y)); });
    case ReduceOp::kBxor:
      return each(a, b, out, [&](T x, T y) { return static_cast<T>(wide(x) ^ wide(y)); });
  }
  each(a, b, out, [&](T x, T y) { return static_cast<T>(wide(x) + wide(y)); });
}

// Of zeros of different sign, max and min take b, as x86 does. Where a sum or a product is a number
// both of its operands are, too, which is nearly always: no element is looked at alone then.
template <size_t kCount, typename Real>
HORING_DEVICE inline void combine_reals(ReduceOp op,
                                        const Real (&a)[kCount],
                                        const Real (&b)[kCount],
                                        Real (&out)[kCount]) {
  bool some_nan = false;
  switch (op) {
    case ReduceOp::kProd:
      each(a, b, out, [](Real x, Real y) { return x * y; });
      break;
    case ReduceOp::kMax:
      each(a, b, out, [](Real x, Real y) { return x > y ? x : y; });
      some_nan = true;
      break;
    case ReduceOp::kMin:
      each(a, b, out, [](Real x, Real y) { return x < y ? x : y; });
      some_nan = true;
      break;
    default:  // there are no bits of floats
      each(a, b, out, [](Real x, Real y) { return x + y; });
      break;
  }
  HORING_UNROLL
  for (size_t k = 0; k < kCount; ++k) {
    some_nan = some_nan || is_nan(out[k]);
  }
  if (some_nan) {
    HORING_UNROLL
    for (size_t k = 0; k < kCount; ++k) {
      out[k] = keep_nan(a[k], b[k], out[k]);
    }
  }
}

// out[k] = a[k] (op) b[k], for an op that the type has (reduction_supported).
template <size_t kCount, typename Number>
HORING_DEVICE inline void combine(ReduceOp op,
                                  const Number (&a)[kCount],
                                  const Number (&b)[kCount],
                                  Number (&out)[kCount]) {
  if constexpr (std::is_integral_v<Number>) {
    combine_integers(op, a, b, out);
  } else {
    combine_reals(op, a, b, out);
  }
}

template <typename Real>
HORING_DEVICE inline Real multiply(Real value, Real factor) {
  return keep_nan(value, factor, value * factor);
}

// value / divisor: floats rounded once, integers truncated toward zero. Integers are divided as
// magnitudes: the most negative number and a divisor past the type's range need no case then. Those
// of 32 bits and less are divided in 32 bits, which is many times as fast on a GPU.
template <typename Number>
HORING_DEVICE inline Number divide(Number value, uint64_t divisor) {
  if constexpr (std::is_integral_v<Number>) {
    using Wide = std::conditional_t<sizeof(Number) == 8, uint64_t, uint32_t>;
    const bool negative = std::is_signed_v<Number> && static_cast<int64_t>(value) < 0;
    const auto wide = static_cast<Wide>(value);
    const Wide magnitude = negative ? Wide{0} - wide : wide;
    const auto narrow_divisor = static_cast<Wide>(divisor);
    const Wide quotient =
        static_cast<uint64_t>(narrow_divisor) == divisor ? magnitude / narrow_divisor : Wide{0};
    return static_cast<Number>(negative ? Wide{0} - quotient : quotient);
  } else {
    const auto by = static_cast<Number>(divisor);
    return keep_nan(value, by, value / by);
  }
}

}  // namespace ho::device
