#include "optim/gradients.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "device/kernels/step_arithmetic.hpp"
#include "reduce/reduce.hpp"

namespace paro {
namespace {

// Sums that can run side by side: adding up in one would wait for each addition in turn.
constexpr size_t kSums = ho::device::kNormColumns;

constexpr bool is_finite(float value) {
  constexpr uint32_t kExponent = 0x7f800000;
  return (std::bit_cast<uint32_t>(value) & kExponent) != kExponent;
}

// Adds values[0 .. count - 1] to the first `count` sums.
void add_squares(const float* values, size_t count, double* sums, uint64_t* not_finite) {
  for (size_t k = 0; k < count; ++k) {
    const bool finite = is_finite(values[k]);
    const double value = finite ? static_cast<double>(values[k]) : 0;
    sums[k] += value * value;
    not_finite[k] += finite ? 0 : 1;
  }
}

// Without its sign an infinity is larger than every finite number, and a NaN larger than that.
template <typename Word>
std::optional<NotFinite> first_from(Word infinity, const void* data, size_t count) {
  constexpr size_t kBlock = 2048;  // without a branch inside
  const auto* const bytes = static_cast<const std::byte*>(data);
  const auto magnitude = [&](size_t i) {
    Word word = 0;
    std::memcpy(&word, bytes + i * sizeof word, sizeof word);
    constexpr Word kAllButSign = std::numeric_limits<Word>::max() / 2;
    return static_cast<std::make_signed_t<Word>>(word & kAllButSign);
  };
  const auto limit = static_cast<std::make_signed_t<Word>>(infinity);
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t end = std::min(count, begin + kBlock);
    Word any = 0;
    for (size_t i = begin; i < end; ++i) {
      any = static_cast<Word>(any | (magnitude(i) >= limit ? 1U : 0U));
    }
    for (size_t i = begin; any != 0 && i < end; ++i) {
      if (magnitude(i) >= limit) {
        return NotFinite{i, magnitude(i) > limit};
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<NotFinite> first_not_finite(ho::DType dtype, const void* data, size_t count) {
  switch (dtype) {
    case ho::DType::kFloat16:
      return first_from<uint16_t>(0x7c00, data, count);
    case ho::DType::kBfloat16:
      return first_from<uint16_t>(0x7f80, data, count);
    default:
      return first_from<uint32_t>(0x7f800000, data, count);
  }
}

bool is_compute_type(ho::DType dtype) {
  return dtype == ho::DType::kFloat32 || dtype == ho::DType::kFloat16 ||
         dtype == ho::DType::kBfloat16;
}

void unscale(ho::DType dtype, const void* src, double factor, std::span<float> dst) {
  if (dst.empty()) {
    return;
  }
  if (dtype != ho::DType::kFloat32) {
    ho::widen(dtype, dst.data(), src, dst.size());
  } else if (src != dst.data()) {
    std::memcpy(dst.data(), src, dst.size_bytes());
  }
  const auto by = static_cast<float>(factor);
  for (float& value : dst) {
    value *= by;
  }
}

Norm norm_of(std::span<const float> values) {
  std::array<double, kSums> sums{};
  std::array<uint64_t, kSums> not_finite{};
  size_t i = 0;
  for (; i + kSums <= values.size(); i += kSums) {
    add_squares(values.data() + i, kSums, sums.data(), not_finite.data());
  }
  add_squares(values.data() + i, values.size() - i, sums.data(), not_finite.data());
  Norm all;
  for (size_t k = 0; k < kSums; ++k) {
    all += Norm{sums[k], not_finite[k]};
  }
  return all;
}

double clip_factor(double norm, double max_norm) {
  return ho::device::clip_factor(norm, max_norm);
}

void accumulate(ho::DType dtype, void* into, const void* from, size_t count) {
  ho::reduce(dtype, ho::ReduceOp::kSum, into, into, from, count);
}

void accumulate(ho::DType dtype, std::span<float> sums, const void* from) {
  if (dtype == ho::DType::kFloat32) {
    accumulate(dtype, sums.data(), from, sums.size());
  } else {
    ho::reduce_widening(dtype, ho::ReduceOp::kSum, sums.data(), sums.data(), from, sums.size());
  }
}

void round_in_place(ho::DType dtype, void* data, size_t count) {
  if (dtype != ho::DType::kFloat32) {
    ho::narrow(dtype, data, static_cast<const float*>(data), count);
  }
}

void round_to(ho::DType dtype, std::span<const float> src, void* dst) {
  if (src.empty()) {
    return;
  }
  if (dtype == ho::DType::kFloat32) {
    std::memcpy(dst, src.data(), src.size_bytes());
  } else {
    ho::narrow(dtype, dst, src.data(), src.size());
  }
}

}  // namespace paro
