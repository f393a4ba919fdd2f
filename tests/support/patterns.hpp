// Input values that encode rank and index, chosen so that every expected output is a formula and
// exact in every type: small whole numbers for sums, powers of two for products.
#pragma once

#include <complex>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "reduce/reduce.hpp"

namespace ho::test {

// The number that rank contributes at the index, before it is stored in a dtype. Values do not
// repeat at any distance: an element from a wrong place shows.
inline double pattern(ReduceOp op, uint32_t rank, uint64_t index) {
  const uint64_t mixed = ((index + 1) * 0x9e3779b97f4a7c15U) >> 32;
  if (op == ReduceOp::kProd) {
    return (mixed + rank) % 5 == 0 ? 2.0 : 1.0;  // at most 2^ceil(world/5)
  }
  if (op == ReduceOp::kBand || op == ReduceOp::kBor || op == ReduceOp::kBxor) {
    const uint64_t bit = uint64_t{1} << (mixed + rank) % 7;  // all seven fit every integer
    return static_cast<double>(op == ReduceOp::kBand ? 127 - bit : bit);
  }
  return static_cast<double>((mixed + uint64_t{rank} * 7) % 4);
}

// This rank's ho_call_options.scale, where the operation looks at it.
inline double factor_of(uint32_t rank) {
  constexpr double kFactors[] = {1, 0.5, -2};
  return kFactors[rank % 3];
}

inline double combine(ReduceOp op, double a, double b) {
  const auto bits_a = static_cast<int64_t>(a);
  const auto bits_b = static_cast<int64_t>(b);
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
    case ReduceOp::kPremulSum:
      return a + b;
    case ReduceOp::kBand:
      return static_cast<double>(bits_a & bits_b);
    case ReduceOp::kBor:
      return static_cast<double>(bits_a | bits_b);
    case ReduceOp::kBxor:
      return static_cast<double>(bits_a ^ bits_b);
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMax:
      return a > b ? a : b;
    case ReduceOp::kMin:
      return a < b ? a : b;
  }
  return 0;
}

inline double expected(ReduceOp op, uint32_t world, uint64_t index) {
  const auto operand = [&](uint32_t rank) {
    return pattern(op, rank, index) * (op == ReduceOp::kPremulSum ? factor_of(rank) : 1);
  };
  double value = operand(0);
  for (uint32_t rank = 1; rank < world; ++rank) {
    value = combine(op, value, operand(rank));
  }
  return value;
}

// value as the dtype stores it. 8-bit floats are written through the table of their exact small
// whole numbers 0..15.
inline void store(DType dtype, std::byte* at, double value) {
  const auto put = [at](auto typed) { std::memcpy(at, &typed, sizeof(typed)); };
  static constexpr uint8_t kE4m3[16] = {0x00,
                                        0x38,
                                        0x40,
                                        0x44,
                                        0x48,
                                        0x4a,
                                        0x4c,
                                        0x4e,
                                        0x50,
                                        0x51,
                                        0x52,
                                        0x53,
                                        0x54,
                                        0x55,
                                        0x56,
                                        0x57};
  const float narrow_value = static_cast<float>(value);
  switch (dtype) {
    case DType::kInt8:
      return put(static_cast<int8_t>(value));
    case DType::kUint8:
      return put(static_cast<uint8_t>(value));
    case DType::kInt32:
      return put(static_cast<int32_t>(value));
    case DType::kUint32:
      return put(static_cast<uint32_t>(value));
    case DType::kInt64:
      return put(static_cast<int64_t>(value));
    case DType::kUint64:
      return put(static_cast<uint64_t>(value));
    case DType::kFloat16:
    case DType::kBfloat16:
      return narrow(dtype, at, &narrow_value, 1);
    case DType::kFloat32:
      return put(narrow_value);
    case DType::kFloat64:
      return put(value);
    case DType::kFloat8E4m3:
      return put(kE4m3[static_cast<size_t>(value)]);
    // e5m2 is the upper byte of fp16.
    case DType::kFloat8E5m2: {
      uint16_t half = 0;
      narrow(DType::kFloat16, &half, &narrow_value, 1);
      return put(static_cast<uint8_t>(half >> 8));
    }
    case DType::kInt16:
      return put(static_cast<int16_t>(-value));
    case DType::kUint16:
      return put(static_cast<uint16_t>(value));
    case DType::kBool:
      return put(value > 1);
    case DType::kComplex64:
      return put(std::complex<float>(narrow_value, -narrow_value));
    case DType::kComplex128:
      return put(std::complex<double>(value, -value));
  }
}

// Values as the dtype stores them; 16-bit ones at once, which is many times as fast.
inline std::vector<std::byte> stored(DType dtype, const std::vector<double>& values) {
  const size_t size = size_bytes(dtype);
  std::vector<std::byte> data(values.size() * size);
  if (dtype == DType::kFloat16 || dtype == DType::kBfloat16) {
    std::vector<float> wide;
    wide.reserve(values.size());
    for (const double value : values) {
      wide.push_back(static_cast<float>(value));
    }
    narrow(dtype, data.data(), wide.data(), wide.size());
    return data;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    store(dtype, data.data() + i * size, values[i]);
  }
  return data;
}

inline std::vector<std::byte> filled(DType dtype, ReduceOp op, uint32_t rank, uint64_t count) {
  std::vector<double> values(count);
  for (uint64_t i = 0; i < count; ++i) {
    values[i] = pattern(op, rank, i);
  }
  return stored(dtype, values);
}

// Throws with the first difference.
inline void require_equal(const std::vector<std::byte>& got,
                          const std::vector<std::byte>& want,
                          size_t element_bytes,
                          const std::string& what) {
  // Many times as fast under sanitizers as what follows.
  if (want.empty() || std::memcmp(got.data(), want.data(), want.size()) == 0) {
    return;
  }
  for (size_t at = 0; at < want.size(); ++at) {
    if (got[at] != want[at]) {
      throw std::runtime_error(what + ": wrong from element " + std::to_string(at / element_bytes) +
                               " of " + std::to_string(want.size() / element_bytes));
    }
  }
}

}  // namespace ho::test
