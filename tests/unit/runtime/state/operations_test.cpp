// The host's operations against optim's own arithmetic, over several blocks of theirs.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "state/host_operations.hpp"

using namespace paro;

namespace {

constexpr size_t kCount = 10000;  // of which no block of the operations is a divisor

std::vector<float> numbers(float first) {
  std::vector<float> values(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    values[i] = first + static_cast<float>(i % 97) / 8;
  }
  return values;
}

}  // namespace

TEST_CASE("an update is the rule on scaled gradients, and parameters are masters rounded") {
  const HostOperations operations;
  const Rule rule = AdamW{};
  std::vector<float> master = numbers(1);
  std::vector<float> m(kCount);
  std::vector<float> v(kCount);
  std::vector<uint16_t> gradient(kCount);
  std::vector<uint16_t> parameter(kCount);
  operations.store(ho::DType::kBfloat16, numbers(-3), gradient.data());
  std::vector<float> scaled(kCount);
  operations.fetch(ho::DType::kBfloat16, gradient.data(), 0.25, scaled);
  CHECK(scaled[8] == -0.5F);  // (-3 + 8 / 8) / 4
  std::vector<float> expected = master;
  std::vector<float> m_of_it(kCount);
  std::vector<float> v_of_it(kCount);
  update(rule, 3, {expected, {m_of_it, v_of_it}, scaled});

  UpdatedElements elements;
  elements.master = master.data();
  elements.rule = {m.data(), v.data()};
  elements.gradient_dtype = ho::DType::kBfloat16;
  elements.gradient = gradient.data();
  elements.parameter_dtype = ho::DType::kBfloat16;
  elements.parameter = parameter.data();
  elements.count = kCount;
  StepControl control;
  control.steps = 2;
  operations.decide({.averaging = 0.25, .beta_1 = 0.9, .beta_2 = 0.999}, &control);
  CHECK((control.left_out == 0 && control.steps == 3 && control.factor == 0.25));
  operations.update(rule, &control, elements);
  CHECK((master == expected && m == m_of_it && v == v_of_it));
  std::vector<uint16_t> rounded(kCount);
  operations.round(ho::DType::kBfloat16, expected.data(), rounded.data(), kCount);
  CHECK(parameter == rounded);

  control.sums.not_finite = 1;
  operations.decide({}, &control);
  operations.update(rule, &control, elements);
  CHECK((control.left_out != 0 && control.steps == 3 && master == expected));
}

TEST_CASE("a norm goes on from the one before, counts and finds what is not finite") {
  const HostOperations operations;
  std::vector<float> values = numbers(0);
  GradientSums sums = {};
  operations.norm(ho::DType::kFloat32, values.data(), kCount, 1, 0, &sums);
  double squares = 0;
  for (const float value : values) {
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  CHECK(std::abs(sums.squared - squares) < 1e-6 * squares);
  CHECK(sums.not_finite == 0);
  CHECK_FALSE(first_not_finite_of(sums));

  values[9000] = std::numeric_limits<float>::quiet_NaN();
  values[5001] = std::numeric_limits<float>::infinity();
  operations.norm(ho::DType::kFloat32, values.data(), kCount, 1, kCount, &sums);
  CHECK((first_not_finite_of(sums) == kCount + 5001 && sums.nan != 0));
  CHECK(sums.not_finite == 2);
  CHECK(sums.squared > 1.9 * squares);
  const auto first = operations.first_not_finite(ho::DType::kFloat32, values.data(), kCount);
  CHECK((first && first->index == 5001 && !first->nan));
}

TEST_CASE("gradients are added to sums of fp32, or of their own type") {
  const HostOperations operations;
  std::array<uint16_t, 2> ones{};
  operations.store(ho::DType::kFloat16, std::array{1.0F, 2.0F}, ones.data());
  std::array<float, 2> wide{0.0001F, 2048};
  operations.add(ho::DType::kFloat32, wide.data(), ho::DType::kFloat16, ones.data(), 2);
  CHECK((wide[0] == 1.0001F && wide[1] == 2050));
  std::array<uint16_t, 2> sums = ones;
  operations.add(ho::DType::kFloat16, sums.data(), ho::DType::kFloat16, ones.data(), 2);
  std::array<float, 2> back{};
  operations.fetch(ho::DType::kFloat16, sums.data(), 1, back);
  CHECK((back[0] == 2 && back[1] == 4));
  operations.round_in_place(ho::DType::kFloat16, wide.data(), 2);
  operations.fetch(ho::DType::kFloat16, wide.data(), 1, back);
  CHECK((back[0] == 1 && back[1] == 2050));
}

TEST_CASE("a hash is the sum over words at their places, the last one cut") {
  std::array<std::byte, 75> bytes{};
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i * i + 1);
  }
  for (size_t count = 0; count <= bytes.size(); ++count) {
    uint64_t want = 0;
    for (size_t at = 0; at < count; at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at, std::min(count - at, sizeof word));
      want += ho::device::hash_of_word(at / sizeof word, word);
    }
    CHECK(HostOperations().hash(bytes.data(), count) == want);
  }
}

TEST_CASE("bytes are fetched behind others, stored, copied, hashed and zeroed") {
  const HostOperations operations;
  const std::array<std::byte, 3> from{std::byte{1}, std::byte{2}, std::byte{3}};
  std::vector<std::byte> fetched{std::byte{9}};
  operations.fetch(from.data(), 3, fetched);
  CHECK(fetched == std::vector{std::byte{9}, from[0], from[1], from[2]});
  std::array<std::byte, 3> to{};
  operations.store(from, to.data());
  CHECK(to == from);
  CHECK(operations.hash(to.data(), 3) == operations.hash(from.data(), 3));
  CHECK(operations.hash(to.data(), 3) != operations.hash(from.data(), 2));
  std::array<std::byte, 3> later{};
  operations.fetch_later(to.data(), later);
  CHECK((operations.finish().ok() && later == from));
  operations.zero(to.data(), 2);
  CHECK((to[1] == std::byte{0} && to[2] == from[2]));
  operations.copy(to.data(), from.data(), 1);
  CHECK(to[0] == from[0]);
}
