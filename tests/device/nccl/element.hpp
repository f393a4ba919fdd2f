// Small whole numbers in each of NCCL's types, bit for bit: what was sent and what must come are
// compared as bytes.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "abi/common.hpp"

namespace nccl_check {

using nccl_abi::DataType;

struct Type {
  DataType type;
  size_t bytes;
  const char* name;
};

inline constexpr std::array kTypes{
    Type{DataType::kInt8, 1, "int8"},
    Type{DataType::kUint8, 1, "uint8"},
    Type{DataType::kInt32, 4, "int32"},
    Type{DataType::kUint32, 4, "uint32"},
    Type{DataType::kInt64, 8, "int64"},
    Type{DataType::kUint64, 8, "uint64"},
    Type{DataType::kFloat16, 2, "half"},
    Type{DataType::kFloat32, 4, "float"},
    Type{DataType::kFloat64, 8, "double"},
    Type{DataType::kBfloat16, 2, "bfloat16"},
};

// Whole numbers from 0 to 2048, which a half holds exactly.
inline uint16_t half_bits(uint32_t value) {
  if (value == 0) {
    return 0;
  }
  const auto exponent = static_cast<uint32_t>(std::bit_width(value)) - 1;
  const uint32_t fraction = (value << 10U >> exponent) & 0x3ffU;
  return static_cast<uint16_t>((exponent + 15) << 10U | fraction);
}

template <typename T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

inline void store(const Type& type, std::byte* to, uint32_t value) {
  switch (type.type) {
    case DataType::kFloat16:
      return store(to, half_bits(value));
    case DataType::kBfloat16:
      return store(
          to, static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16U));
    case DataType::kFloat32:
      return store(to, static_cast<float>(value));
    case DataType::kFloat64:
      return store(to, static_cast<double>(value));
    default:
      break;
  }
  const uint64_t wide = value;  // the integers: little endian
  std::memcpy(to, &wide, type.bytes);
}

// `count` elements; value(i) is the i-th.
template <typename Value>
std::vector<std::byte> elements(const Type& type, size_t count, const Value& value) {
  std::vector<std::byte> bytes(count * type.bytes);
  for (size_t i = 0; i < count; ++i) {
    store(type, bytes.data() + i * type.bytes, value(i));
  }
  return bytes;
}

}  // namespace nccl_check
