#include "bench/harness/values.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace ho::harness {
namespace {

// Mixes rank and place into 64 well-spread bits (a splitmix64 step).
uint64_t mix(uint64_t rank, uint64_t index) {
  uint64_t x = (rank + 1) * 0x9e3779b97f4a7c15U + index * 0xd1b54a32d192ed03U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

uint64_t pick(uint64_t bits, uint64_t choices) {
  return bits % choices;
}

struct FloatShape {
  uint32_t exponent_bits;
  uint32_t mantissa_bits;
};

FloatShape float_shape(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return {5, 10};
    case DType::kBfloat16:
      return {8, 7};
    case DType::kFloat32:
      return {8, 23};
    case DType::kFloat64:
      return {11, 52};
    case DType::kFloat8E4m3:
      return {4, 3};
    case DType::kFloat8E5m2:
      return {5, 2};
    default:
      return {0, 0};
  }
}

bool is_float(DType dtype) {
  return float_shape(dtype).exponent_bits != 0;
}

bool is_signed(DType dtype) {
  return is_float(dtype) || dtype == DType::kInt8 || dtype == DType::kInt32 ||
         dtype == DType::kInt64;
}

constexpr int64_t kLargestScale = 2;

// Every whole number from 0 to this is exact in the type.
int64_t largest_exact(DType dtype) {
  if (is_float(dtype)) {
    const uint32_t bits = std::min(float_shape(dtype).mantissa_bits + 1, 40U);
    return int64_t{1} << bits;
  }
  const size_t bits = size_bytes(dtype) * 8 - (is_signed(dtype) ? 1 : 0);
  return bits > 40 ? int64_t{1} << 40 : (int64_t{1} << bits) - 1;
}

// Sums stay within largest_exact: either each rank has a share of the range, or, where the ranks
// outnumber the range, at most that many ranks contribute a 1, and the place decides which.
int64_t sum_value(int64_t largest, uint32_t world, uint32_t rank, uint64_t index) {
  const int64_t share = largest / world;
  if (share >= 1) {
    return static_cast<int64_t>(pick(mix(rank, index), static_cast<uint64_t>(share) + 1));
  }
  const uint64_t turn = (rank + mix(0, index)) % world;
  return turn <= pick(mix(1, index), static_cast<uint64_t>(largest)) ? 1 : 0;
}

// The average is a whole number that depends on the place; neighbouring ranks lie equally far above
// and below it.
int64_t avg_value(int64_t largest, uint32_t world, uint32_t rank, uint64_t index) {
  const int64_t half = largest / world / 2;
  if (half == 0) {
    return largest / world;
  }
  const auto choices = static_cast<uint64_t>(half) + 1;
  const int64_t middle = static_cast<int64_t>(pick(mix(0, index), choices));
  const uint32_t pair = rank / 2;
  if (pair * 2 + 1 >= world) {  // the last of an odd number has no partner
    return middle;
  }
  const auto most = static_cast<uint64_t>(middle) + 1;
  const int64_t offset = static_cast<int64_t>(pick(mix(pair + 1, index), most));
  return rank % 2 == 0 ? middle + offset : middle - offset;
}

// Ones, and a few twos: how many depends on the place and never leaves the range.
int64_t prod_value(int64_t largest, uint32_t world, uint32_t rank, uint64_t index) {
  const auto width = static_cast<uint64_t>(std::bit_width(static_cast<uint64_t>(largest))) - 1;
  const uint64_t twos = pick(mix(world, index), std::min<uint64_t>(width, world) + 1);
  const uint64_t turn = (rank + mix(0, index) % world) % world;
  return turn < twos ? 2 : 1;
}

int64_t reduce_value(DType dtype, ReduceOp op, uint32_t world, uint32_t rank, uint64_t index) {
  const int64_t largest = largest_exact(dtype);
  switch (op) {
    case ReduceOp::kSum:
      return sum_value(largest, world, rank, index);
    case ReduceOp::kAvg:
      return avg_value(largest, world, rank, index);
    case ReduceOp::kPremulSum:
      return sum_value(largest / kLargestScale, world, rank, index);
    case ReduceOp::kProd:
      return prod_value(largest, world, rank, index);
    case ReduceOp::kMax:
    case ReduceOp::kMin:
    case ReduceOp::kBand:
    case ReduceOp::kBor:
    case ReduceOp::kBxor:
      break;
  }
  const auto value = static_cast<int64_t>(pick(mix(rank, index), static_cast<uint64_t>(largest)));
  return is_signed(dtype) ? value - largest / 2 : value;
}

int64_t combine(ReduceOp op, int64_t a, int64_t b) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
    case ReduceOp::kPremulSum:
      return a + b;
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kBand:
      return a & b;
    case ReduceOp::kBor:
      return a | b;
    case ReduceOp::kBxor:
      return a ^ b;
  }
  return 0;
}

uint64_t encode_float(FloatShape shape, int64_t value) {
  if (value == 0) {
    return 0;
  }
  const uint64_t sign = value < 0 ? 1 : 0;
  const auto magnitude = static_cast<uint64_t>(value < 0 ? -value : value);
  const auto exponent = static_cast<uint32_t>(std::bit_width(magnitude)) - 1;
  const uint64_t bias = (uint64_t{1} << (shape.exponent_bits - 1)) - 1;
  const uint64_t fraction = magnitude ^ (uint64_t{1} << exponent);
  const uint64_t mantissa = exponent <= shape.mantissa_bits
                                ? fraction << (shape.mantissa_bits - exponent)
                                : fraction >> (exponent - shape.mantissa_bits);
  const uint64_t biased = (exponent + bias) << shape.mantissa_bits;
  return (sign << (shape.exponent_bits + shape.mantissa_bits)) | biased | mantissa;
}

template <typename BitsOf>
Table make_table(DType dtype, BitsOf&& bits_of) {
  const size_t bytes = size_bytes(dtype);
  std::vector<std::byte> table(kPeriod * bytes);
  for (size_t index = 0; index < kPeriod; ++index) {
    const uint64_t bits = bits_of(index);
    std::byte* const at = table.data() + index * bytes;
    std::memcpy(at, &bits, std::min(bytes, sizeof(bits)));
    if (bytes > sizeof(bits)) {  // complex128: bits alone, other ones in the second half
      const uint64_t more = ~bits;
      std::memcpy(at + sizeof(bits), &more, bytes - sizeof(bits));
    }
  }
  return {bytes, std::move(table)};
}

}  // namespace

Table::Table(size_t element_bytes, std::vector<std::byte> bytes)
    : element_bytes_(element_bytes), bytes_(std::move(bytes)) {}

void Table::fill(std::byte* to, uint64_t first_index, size_t count) const {
  size_t index = first_index % kPeriod;
  while (count > 0) {
    const size_t run = std::min(count, kPeriod - index);
    std::memcpy(to, bytes_.data() + index * element_bytes_, run * element_bytes_);
    to += run * element_bytes_;
    count -= run;
    index = 0;
  }
}

uint64_t Table::count_wrong(const std::byte* from, uint64_t first_index, size_t count) const {
  uint64_t wrong = 0;
  size_t index = first_index % kPeriod;
  while (count > 0) {
    const size_t run = std::min(count, kPeriod - index);
    const std::byte* const expected = bytes_.data() + index * element_bytes_;
    if (std::memcmp(from, expected, run * element_bytes_) != 0) {
      for (size_t i = 0; i < run; ++i) {
        const size_t at = i * element_bytes_;
        wrong += std::memcmp(from + at, expected + at, element_bytes_) != 0 ? 1U : 0U;
      }
    }
    from += run * element_bytes_;
    count -= run;
    index = 0;
  }
  return wrong;
}

uint64_t encode(DType dtype, int64_t value) {
  if (is_float(dtype)) {
    return encode_float(float_shape(dtype), value);
  }
  return static_cast<uint64_t>(value);
}

Table gather_input(DType dtype, uint32_t rank) {
  return make_table(dtype, [&](size_t index) { return mix(rank, index); });
}

int64_t scale_of(uint32_t rank) {
  return rank % 2 == 0 ? 1 : kLargestScale;
}

Table reduce_input(DType dtype, ReduceOp op, uint32_t world_size, uint32_t rank) {
  return make_table(dtype, [&](size_t index) {
    return encode(dtype, reduce_value(dtype, op, world_size, rank, index));
  });
}

Table reduce_expected(DType dtype, ReduceOp op, uint32_t world_size) {
  return make_table(dtype, [&](size_t index) {
    const auto operand = [&](uint32_t rank) {
      const int64_t value = reduce_value(dtype, op, world_size, rank, index);
      return op == ReduceOp::kPremulSum ? value * scale_of(rank) : value;
    };
    int64_t result = operand(0);
    for (uint32_t rank = 1; rank < world_size; ++rank) {
      result = combine(op, result, operand(rank));
    }
    return encode(dtype, op == ReduceOp::kAvg ? result / int64_t{world_size} : result);
  });
}

}  // namespace ho::harness
