// A slow reference for the small float formats, from their definition alone: a pattern's value is
// spelled out with ldexp, and rounding searches the sorted list of all values. Shares nothing with
// the kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace ho::test {

struct SmallFormat {
  int exponent_bits;
  int mantissa_bits;
  bool finite;  // no infinities; the highest pattern is NaN

  [[nodiscard]] uint32_t sign_bit() const { return 1U << (exponent_bits + mantissa_bits); }
  [[nodiscard]] uint32_t infinity() const {
    return ((1U << exponent_bits) - 1) << mantissa_bits;  // meaningless when finite
  }
  // The first magnitude pattern that is not a number.
  [[nodiscard]] uint32_t first_special() const { return finite ? sign_bit() - 1 : infinity(); }
};

inline constexpr SmallFormat kHalf{5, 10, false};
inline constexpr SmallFormat kBrain{8, 7, false};
inline constexpr SmallFormat kE4m3{4, 3, true};
inline constexpr SmallFormat kE5m2{5, 2, false};

inline double value_of(const SmallFormat& format, uint32_t pattern) {
  const uint32_t magnitude = pattern & (format.sign_bit() - 1);
  const double sign = (pattern & format.sign_bit()) != 0 ? -1.0 : 1.0;
  if (magnitude >= format.first_special()) {
    return !format.finite && magnitude == format.infinity()
               ? sign * std::numeric_limits<double>::infinity()
               : std::numeric_limits<double>::quiet_NaN();
  }
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  const uint32_t mantissa = magnitude & ((1U << format.mantissa_bits) - 1);
  if (exponent == 0) {
    return sign * std::ldexp(mantissa, 1 - bias - format.mantissa_bits);
  }
  return sign * std::ldexp(mantissa + (1U << format.mantissa_bits),
                           exponent - bias - format.mantissa_bits);
}

class RoundingReference {
 public:
  explicit RoundingReference(const SmallFormat& format) : format_(format) {
    for (uint32_t pattern = 0; pattern < format.first_special(); ++pattern) {
      values_.push_back(value_of(format, pattern));
    }
    // Where the next value would lie if the format went on; from half way there it overflows.
    const double last = values_.back();
    overflow_ = last + (last - values_[values_.size() - 2]);
  }

  // Nearest, ties to the even pattern. NaN gives a pattern that is_nan accepts.
  [[nodiscard]] uint32_t round(double value) const {
    const uint32_t special = format_.first_special();
    if (std::isnan(value)) {
      return format_.finite ? special : special + 1;
    }
    const uint32_t sign = std::signbit(value) ? format_.sign_bit() : 0;
    const double magnitude = std::fabs(value);
    if (std::isinf(magnitude)) {
      return sign | special;
    }
    const auto above = std::lower_bound(values_.begin(), values_.end(), magnitude);
    const auto high = static_cast<uint32_t>(above - values_.begin());
    const double high_value = above == values_.end() ? overflow_ : *above;
    if (high == 0) {
      return sign;
    }
    const double to_low = magnitude - values_[high - 1];
    const double to_high = high_value - magnitude;
    const bool up = to_high < to_low || (to_high == to_low && high % 2 == 0);
    return sign | (up ? high : high - 1);
  }

  [[nodiscard]] bool is_nan(uint32_t pattern) const {
    return std::isnan(value_of(format_, pattern));
  }

 private:
  SmallFormat format_;
  std::vector<double> values_;
  double overflow_ = 0;
};

}  // namespace ho::test
