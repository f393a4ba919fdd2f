// How one element of each type is read and written, for g++, clang and nvcc. A codec turns
// the bits of an element into a number that is computed with, and back: fp16, bf16 and fp8 are
// computed as fp32, all others as what they are.
//
// The results are those of src/reduce (codecs_inl.hpp) to the bit. So small floats are converted by
// integer arithmetic on their patterns (fp16 by a GPU's own instructions), and what a NaN looks
// like is written out: processors differ in the NaN that they make, and src/reduce has the one of
// x86.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

// In front of what runs on both sides.
#ifdef __CUDACC__
#define HORING_DEVICE __host__ __device__
#else
#define HORING_DEVICE
#endif

namespace ho::device {

HORING_DEVICE inline uint32_t bits_of(float value) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(value);
#else
  return std::bit_cast<uint32_t>(value);
#endif
}
HORING_DEVICE inline float float_of(uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}
HORING_DEVICE inline uint64_t bits_of(double value) {
#ifdef __CUDA_ARCH__
  return static_cast<uint64_t>(__double_as_longlong(value));
#else
  return std::bit_cast<uint64_t>(value);
#endif
}
HORING_DEVICE inline double double_of(uint64_t bits) {
#ifdef __CUDA_ARCH__
  return __longlong_as_double(static_cast<int64_t>(bits));
#else
  return std::bit_cast<double>(bits);
#endif
}

HORING_DEVICE inline bool is_nan(float value) {
  return (bits_of(value) & 0x7fffffffU) > 0x7f800000U;
}
HORING_DEVICE inline bool is_nan(double value) {
  return (bits_of(value) & 0x7fffffffffffffffULL) > 0x7ff0000000000000ULL;
}
// The same NaN, no longer signaling.
HORING_DEVICE inline float quiet(float nan) {
  return float_of(bits_of(nan) | 0x00400000U);
}
HORING_DEVICE inline double quiet(double nan) {
  return double_of(bits_of(nan) | 0x0008000000000000ULL);
}
// What an operation gives that has no result, such as infinity minus infinity.
HORING_DEVICE inline float no_result(float) {
  return float_of(0xffc00000U);
}
HORING_DEVICE inline double no_result(double) {
  return double_of(0xfff8000000000000ULL);
}

// The result of an operation on a and b: a NaN operand stays as it is, the first one of two.
template <typename Real>
HORING_DEVICE inline Real keep_nan(Real a, Real b, Real result) {
  if (is_nan(a)) {
    return quiet(a);
  }
  if (is_nan(b)) {
    return quiet(b);
  }
  return is_nan(result) ? no_result(result) : result;
}

template <typename T>
struct Integer {
  using Element = std::make_unsigned_t<T>;
  using Number = T;
  HORING_DEVICE static Number load(Element bits) { return static_cast<T>(bits); }
  HORING_DEVICE static Element store(Number value) { return static_cast<Element>(value); }
};

struct Float32 {
  using Element = uint32_t;
  using Number = float;
  HORING_DEVICE static Number load(Element bits) { return float_of(bits); }
  HORING_DEVICE static Element store(Number value) { return bits_of(value); }
};

struct Float64 {
  using Element = uint64_t;
  using Number = double;
  HORING_DEVICE static Number load(Element bits) { return double_of(bits); }
  HORING_DEVICE static Element store(Number value) { return bits_of(value); }
};

struct Bfloat16 {
  using Element = uint16_t;
  using Number = float;
  HORING_DEVICE static Number load(Element bits) {
    return float_of(static_cast<uint32_t>(bits) << 16);
  }
  // To nearest even: half of the last kept place is added, less one where that place is 0. A NaN
  // would carry into infinity.
  HORING_DEVICE static Element store(Number value) {
    const uint32_t bits = bits_of(value);
    const uint32_t kept = bits >> 16;
    const uint32_t rounded = (bits + 0x7fffU + (kept & 1U)) >> 16;
    return static_cast<Element>(is_nan(value) ? kept | 0x40U : rounded);
  }
};

#ifdef __CUDA_ARCH__
// What a GPU has instructions for. Of a NaN they do not keep the pattern.
__device__ inline float float_of_half(uint16_t half) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
  return value;
}
__device__ inline uint16_t half_of_float(float value) {
  uint16_t half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
  return half;
}
#endif

// Formats of 1 sign, kExponent and kMantissa bits. kFinite: no infinities, and the highest pattern
// is the only NaN.
template <typename Bits, int kExponent, int kMantissa, bool kFinite>
struct SmallFloat {
  using Element = Bits;
  using Number = float;

  static constexpr int kWidth = 1 + kExponent + kMantissa;
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr int kShift = 23 - kMantissa;
  static constexpr uint32_t kMagnitude = (1U << (kExponent + kMantissa)) - 1;
  // The first pattern that is no finite number: infinity, or NaN.
  static constexpr uint32_t kSpecial = kFinite ? kMagnitude : ((1U << kExponent) - 1) << kMantissa;
  static constexpr uint32_t kRebias = static_cast<uint32_t>(127 - kBias) << 23;
  // 2^(1 - kBias), the smallest normal number, as fp32 bits.
  static constexpr uint32_t kMinNormal = static_cast<uint32_t>(128 - kBias) << 23;
  static constexpr bool kIsHalf = kExponent == 5 && kMantissa == 10;

  HORING_DEVICE static Number load(Element raw) {
    const uint32_t magnitude = raw & kMagnitude;
    const uint32_t sign = (static_cast<uint32_t>(raw) & ~kMagnitude) << (32 - kWidth);
    const uint32_t shifted = magnitude << kShift;
#ifdef __CUDA_ARCH__
    if constexpr (kIsHalf) {
      return magnitude > kSpecial ? float_of(shifted | 0x7fc00000U | sign) : float_of_half(raw);
    }
#endif
    uint32_t bits = shifted + kRebias;
    if (magnitude < (1U << kMantissa)) {
      // A subnormal has no leading one. Read as if it had one, it is too large by just that.
      bits = bits_of(float_of(shifted + kMinNormal) - float_of(kMinNormal));
    }
    if (magnitude >= kSpecial) {
      const uint32_t payload = kFinite ? 0 : shifted;
      bits = kFinite || magnitude > kSpecial ? payload | 0x7fc00000U : 0x7f800000U;
    }
    return float_of(bits | sign);
  }

  // To nearest even. Overflow gives infinity, or NaN where there is none.
  HORING_DEVICE static Element store(Number value) {
    const uint32_t bits = bits_of(value);
    const uint32_t magnitude = bits & 0x7fffffffU;
    const uint32_t sign = (bits & 0x80000000U) >> (32 - kWidth);
#ifdef __CUDA_ARCH__
    if constexpr (kIsHalf) {
      return is_nan(value) ? static_cast<Element>(nan_of(magnitude) | sign) : half_of_float(value);
    }
#endif
    const uint32_t last = (magnitude >> kShift) & 1U;
    constexpr uint32_t kBelowHalf = (1U << (kShift - 1)) - 1;
    uint32_t result = (magnitude - kRebias + last + kBelowHalf) >> kShift;
    if (magnitude < kMinNormal) {
      // The sum's last place is the smallest subnormal: the addition rounds.
      constexpr uint32_t kMagic = static_cast<uint32_t>(128 - kBias + kShift) << 23;
      result = bits_of(float_of(magnitude) + float_of(kMagic)) - kMagic;
    }
    if (magnitude > largest_rounded()) {
      result = kSpecial;
    }
    if (magnitude > 0x7f800000U) {
      result = nan_of(magnitude);
    }
    return static_cast<Element>(result | sign);
  }

 private:
  // The largest fp32 pattern that is rounded to a finite number. Half way beyond the largest one, a
  // tie goes to the even pattern.
  HORING_DEVICE static constexpr uint32_t largest_rounded() {
    constexpr uint32_t kLargest = kSpecial - 1;
    constexpr uint32_t kMiddle = (kLargest << kShift) + (1U << (kShift - 1)) + kRebias;
    return (kLargest & 1U) != 0 ? kMiddle - 1 : kMiddle;
  }
  HORING_DEVICE static uint32_t nan_of(uint32_t magnitude) {
    if constexpr (kFinite) {
      return kSpecial;
    } else {
      constexpr uint32_t kPayload = (1U << kMantissa) - 1;
      return kSpecial | (1U << (kMantissa - 1)) | ((magnitude >> kShift) & kPayload);
    }
  }
};

using Float16 = SmallFloat<uint16_t, 5, 10, false>;
using Float8E4m3 = SmallFloat<uint8_t, 4, 3, true>;
using Float8E5m2 = SmallFloat<uint8_t, 5, 2, false>;

}  // namespace ho::device
