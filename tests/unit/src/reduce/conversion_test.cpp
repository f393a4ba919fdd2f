// Exhaustive over every pattern of the small formats, and over the values around each rounding
// boundary, on every instruction set.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "every_target.hpp"
#include "small_float_reference.hpp"

namespace {

using ho::DType;
using ho::ReduceOp;
using ho::test::on_every_target;
using ho::test::RoundingReference;
using ho::test::SmallFormat;
using ho::test::value_of;

// Every value of the format, the middle between neighbours, and that middle nudged to both sides.
std::vector<float> boundary_values(const SmallFormat& format) {
  std::vector<float> values;
  const float infinity = std::numeric_limits<float>::infinity();
  for (uint32_t pattern = 0; pattern < format.first_special(); ++pattern) {
    const double low = value_of(format, pattern);
    const double high = pattern + 1 < format.first_special()
                            ? value_of(format, pattern + 1)
                            : low + (low - value_of(format, pattern - 1));
    const auto middle = static_cast<float>((low + high) / 2);
    for (const float value : {static_cast<float>(low),
                              middle,
                              std::nextafter(middle, infinity),
                              std::nextafter(middle, -infinity)}) {
      values.push_back(value);
      values.push_back(-value);
    }
  }
  for (const float value : {infinity,
                            std::numeric_limits<float>::max(),
                            1e30F,
                            1e-30F,
                            std::numeric_limits<float>::denorm_min(),
                            std::numeric_limits<float>::quiet_NaN()}) {
    values.push_back(value);
    values.push_back(-value);
  }
  return values;
}

void check_16_bit(DType dtype, const SmallFormat& format) {
  const RoundingReference reference(format);
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<uint16_t>(i);
  }
  std::vector<float> wide(all.size());
  std::vector<uint16_t> back(all.size());
  const std::vector<float> values = boundary_values(format);
  std::vector<uint16_t> rounded(values.size());
  on_every_target([&] {
    ho::widen(dtype, wide.data(), all.data(), all.size());
    ho::narrow(dtype, back.data(), wide.data(), wide.size());
    size_t wrong = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      const auto pattern = static_cast<uint32_t>(i);
      const double expected = value_of(format, pattern);
      if (std::isnan(expected)) {
        wrong += static_cast<size_t>(!(std::isnan(wide[i]) && reference.is_nan(back[i])));
      } else {
        const bool same = static_cast<double>(wide[i]) == expected &&
                          std::signbit(wide[i]) == std::signbit(expected) && back[i] == pattern;
        wrong += static_cast<size_t>(!same);
      }
    }
    CHECK(wrong == 0);

    ho::narrow(dtype, rounded.data(), values.data(), values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const uint32_t expected = reference.round(static_cast<double>(values[i]));
      const bool same =
          reference.is_nan(expected) ? reference.is_nan(rounded[i]) : rounded[i] == expected;
      if (!same) {
        FAIL("value " << values[i] << " rounds to " << rounded[i] << ", expected " << expected);
      }
    }
  });
}

// fp8 has no public conversion: adding zero widens and rounds back, adding two numbers rounds.
void check_8_bit(DType dtype, const SmallFormat& format) {
  const RoundingReference reference(format);
  std::vector<uint8_t> left(65536);
  std::vector<uint8_t> right(65536);
  std::vector<uint8_t> sum(65536);
  for (size_t i = 0; i < left.size(); ++i) {
    left[i] = static_cast<uint8_t>(i & 0xff);
    right[i] = static_cast<uint8_t>(i >> 8);
  }
  on_every_target([&] {
    ho::reduce(dtype, ReduceOp::kSum, sum.data(), left.data(), right.data(), sum.size());
    for (size_t i = 0; i < sum.size(); ++i) {
      const uint32_t expected =
          reference.round(value_of(format, left[i]) + value_of(format, right[i]));
      const bool same = reference.is_nan(expected) ? reference.is_nan(sum[i]) : sum[i] == expected;
      if (!same) {
        FAIL("pattern " << +left[i] << " + pattern " << +right[i] << " gives " << +sum[i]
                        << ", expected " << expected);
      }
    }
  });
}

}  // namespace

TEST_CASE("fp16 converts exactly and rounds to nearest even") {
  check_16_bit(DType::kFloat16, ho::test::kHalf);
}

TEST_CASE("bf16 converts exactly and rounds to nearest even") {
  check_16_bit(DType::kBfloat16, ho::test::kBrain);
}

TEST_CASE("fp8 sums of every pair of patterns are rounded right") {
  check_8_bit(DType::kFloat8E4m3, ho::test::kE4m3);
  check_8_bit(DType::kFloat8E5m2, ho::test::kE5m2);
}

TEST_CASE("narrowing in place fills the first half") {
  std::vector<float> values(1027);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i) * 0.37F;
  }
  for (const DType dtype : {DType::kFloat16, DType::kBfloat16}) {
    on_every_target([&] {
      std::vector<uint16_t> expected(values.size());
      ho::narrow(dtype, expected.data(), values.data(), values.size());
      std::vector<float> in_place = values;
      ho::narrow(dtype, in_place.data(), in_place.data(), in_place.size());
      CHECK(std::memcmp(in_place.data(), expected.data(), expected.size() * 2) == 0);
    });
  }
}
