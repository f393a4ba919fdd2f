#include "optim/gradients.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "every_target.hpp"
#include "small_float_reference.hpp"

using ho::DType;
using ho::test::on_every_target;
using ho::test::RoundingReference;
using ho::test::value_of;
using paro::Norm;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr size_t kSizes[] = {0, 1, 7, 8, 9, 15, 16, 17, 1000};

std::vector<uint16_t> all_patterns() {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<uint16_t>(i);
  }
  return all;
}

void check_unscale(DType dtype, const ho::test::SmallFormat& format) {
  const std::vector<uint16_t> all = all_patterns();
  std::vector<float> got(all.size());
  on_every_target([&] {
    paro::unscale(dtype, all.data(), 0.25, got);
    size_t wrong = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      const double value = value_of(format, all[i]);
      const bool same =
          std::isnan(value) ? std::isnan(got[i]) : got[i] == static_cast<float>(value) * 0.25F;
      wrong += same ? 0 : 1;
    }
    CHECK(wrong == 0);
  });
}

void check_rounding(DType dtype, const ho::test::SmallFormat& format) {
  const RoundingReference reference(format);
  std::vector<float> values{0, -0.0F, 1, -1.0009765F, 65504, 65519, 65520, 1e-7F, 3.4e38F, 0.1F};
  for (const float special : {kInfinity, -kInfinity, kNan}) {
    values.push_back(special);
  }
  std::vector<uint16_t> rounded(values.size());
  on_every_target([&] {
    paro::round_to(dtype, values, rounded.data());
    for (size_t i = 0; i < values.size(); ++i) {
      const uint32_t expected = reference.round(values[i]);
      INFO("value " << values[i]);
      CHECK((reference.is_nan(expected) ? reference.is_nan(rounded[i]) : rounded[i] == expected));
    }
  });
}

}  // namespace

TEST_CASE("fp32, fp16 and bf16 alone are compute types") {
  for (uint8_t i = 0; i < ho::kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const bool expected =
        dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBfloat16;
    CHECK(paro::is_compute_type(dtype) == expected);
  }
}

TEST_CASE("unscaling widens every 16-bit pattern exactly, infinities and NaN too") {
  check_unscale(DType::kFloat16, ho::test::kHalf);
  check_unscale(DType::kBfloat16, ho::test::kBrain);
}

TEST_CASE("unscaling fp32 multiplies, also in place") {
  for (const size_t size : kSizes) {
    std::vector<float> values(size);
    for (size_t i = 0; i < size; ++i) {
      values[i] = static_cast<float>(i) * 0.37F - 2;
    }
    std::vector<float> expected(size);
    for (size_t i = 0; i < size; ++i) {
      expected[i] = values[i] * 0.1F;
    }
    std::vector<float> got(size);
    paro::unscale(DType::kFloat32, values.data(), 0.1, got);
    CHECK(got == expected);
    paro::unscale(DType::kFloat32, values.data(), 0.1, values);
    CHECK(values == expected);
  }
}

TEST_CASE("a norm is the sum of the squares of what is finite") {
  for (const size_t size : kSizes) {
    std::vector<float> values(size);
    double expected = 0;
    for (size_t i = 0; i < size; ++i) {
      values[i] = static_cast<float>(i % 7) - 3;  // whole numbers: exact in any order
      expected += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    }
    CHECK(paro::norm_of(values) == Norm{expected, 0});
    for (size_t bad = 0; bad < size; bad += 5) {
      std::vector<float> spoiled = values;
      spoiled[bad] = bad % 2 == 0 ? kNan : -kInfinity;
      const auto without = static_cast<double>(values[bad]) * static_cast<double>(values[bad]);
      CHECK(paro::norm_of(spoiled) == Norm{expected - without, 1});
    }
  }
}

TEST_CASE("the first number that is not finite is found, whatever its sign") {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBfloat16}) {
    for (const size_t size : {size_t{1}, size_t{17}, size_t{2048}, size_t{2049}, size_t{5000}}) {
      const float most = dtype == DType::kFloat16 ? 65504.0F : 3e38F;
      for (const size_t bad : {size_t{0}, size / 2, size - 1, size}) {
        for (const float value : {kInfinity, -kInfinity, kNan, -kNan}) {
          std::vector<float> values(size, -most);
          for (size_t i = bad; i < size; ++i) {
            values[i] = i == bad ? value : kNan;
          }
          std::vector<float> data(size);
          paro::round_to(dtype, values, data.data());
          const auto found = paro::first_not_finite(dtype, data.data(), size);
          REQUIRE(found.has_value() == (bad < size));
          if (found) {
            CHECK(found->index == bad);
            CHECK(found->nan == std::isnan(value));
          }
        }
      }
    }
  }
}

TEST_CASE("squares beyond fp32 add up, and parts of a norm add up") {
  const std::vector<float> large(20, 3e38F);
  const Norm norm = paro::norm_of(large);
  CHECK(norm.not_finite == 0);
  CHECK(norm.squared == Approx(20 * 9e76));
  Norm sum = norm;
  sum += Norm{1, 2};
  sum += norm;
  CHECK(sum.not_finite == 2);
  CHECK(sum.squared == Approx(40 * 9e76));
  const std::vector<float> all_bad(33, kInfinity);
  CHECK(paro::norm_of(all_bad) == Norm{0, 33});
}

TEST_CASE("clipping shortens what is too long and nothing else") {
  CHECK(paro::clip_factor(8, 2) == 0.25);
  CHECK(paro::clip_factor(2, 2) == 1);
  CHECK(paro::clip_factor(0, 2) == 1);
  CHECK(paro::clip_factor(8, 0) == 1);
  CHECK(paro::clip_factor(8, -1) == 1);
}

TEST_CASE("accumulating adds in fp32 and rounds to the compute type") {
  std::vector<float> into{1, 2, 3};
  const std::vector<float> from{0.5F, -2, kInfinity};
  paro::accumulate(DType::kFloat32, into.data(), from.data(), 3);
  CHECK(into == std::vector<float>{1.5F, 0, kInfinity});

  for (const DType dtype : {DType::kFloat16, DType::kBfloat16}) {
    const std::vector<float> left{1, 256, 60000, 1e-3F};
    const std::vector<float> right{1e-5F, 1, 60000, 1e-3F};
    std::vector<uint16_t> sum(4);
    std::vector<uint16_t> add(4);
    paro::round_to(dtype, left, sum.data());
    paro::round_to(dtype, right, add.data());
    std::vector<float> widened_left(4);
    std::vector<float> expected_wide(4);
    paro::unscale(dtype, sum.data(), 1, widened_left);
    paro::unscale(dtype, add.data(), 1, expected_wide);
    for (size_t i = 0; i < 4; ++i) {
      expected_wide[i] += widened_left[i];
    }
    std::vector<uint16_t> expected(4);
    paro::round_to(dtype, expected_wide, expected.data());
    paro::accumulate(dtype, sum.data(), add.data(), 4);
    CHECK(sum == expected);
  }
}

TEST_CASE("an fp16 sum past the largest number is infinity, and a norm counts it") {
  uint16_t sum = 0;
  const float most = 65504;
  paro::round_to(DType::kFloat16, {&most, 1}, &sum);
  const uint16_t same = sum;
  paro::accumulate(DType::kFloat16, &sum, &same, 1);
  float wide = 0;
  paro::unscale(DType::kFloat16, &sum, 1.0 / 65536, {&wide, 1});
  CHECK(wide == kInfinity);
  CHECK(paro::norm_of({&wide, 1}).not_finite == 1);
}

TEST_CASE("masters round to nearest even") {
  check_rounding(DType::kFloat16, ho::test::kHalf);
  check_rounding(DType::kBfloat16, ho::test::kBrain);
  const std::vector<float> values{1.1F, -0.0F, kInfinity, 1e-40F};
  std::vector<float> copy(values.size());
  paro::round_to(DType::kFloat32, values, copy.data());
  CHECK(std::memcmp(copy.data(), values.data(), sizeof(float) * values.size()) == 0);
  paro::round_to(DType::kBfloat16, {}, nullptr);
  paro::unscale(DType::kBfloat16, nullptr, 1, {});
}
