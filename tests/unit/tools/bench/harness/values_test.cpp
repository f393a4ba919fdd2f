#include "bench/harness/values.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "catch.hpp"

namespace ho::harness {
namespace {

constexpr size_t kElements = kPeriod + 100;
constexpr uint64_t kFirst = 7;

template <typename T>
std::vector<T> elements_of(const Table& table) {
  std::vector<std::byte> bytes(kElements * sizeof(T));
  table.fill(bytes.data(), kFirst, kElements);
  std::vector<T> elements(kElements);
  std::memcpy(elements.data(), bytes.data(), bytes.size());
  return elements;
}

template <typename T>
T combine(ReduceOp op, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (op == ReduceOp::kBand || op == ReduceOp::kBor || op == ReduceOp::kBxor) {
      return static_cast<T>(op == ReduceOp::kBand ? a & b : op == ReduceOp::kBor ? a | b : a ^ b);
    }
  }
  switch (op) {
    case ReduceOp::kProd:
      return static_cast<T>(a * b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kMin:
      return std::min(a, b);
    default:
      return static_cast<T>(a + b);
  }
}

// Reduces the inputs in the element type itself, in rank order or against it.
template <typename T>
uint64_t wrong_after_reducing(DType dtype, ReduceOp op, uint32_t world, bool backwards) {
  std::vector<T> sum;
  for (uint32_t i = 0; i < world; ++i) {
    const uint32_t rank = backwards ? world - 1 - i : i;
    auto input = elements_of<T>(reduce_input(dtype, op, world, rank));
    if (op == ReduceOp::kPremulSum) {
      for (T& value : input) {
        value = static_cast<T>(value * static_cast<T>(scale_of(rank)));
      }
    }
    if (sum.empty()) {
      sum = input;
      continue;
    }
    for (size_t k = 0; k < kElements; ++k) {
      sum[k] = combine(op, sum[k], input[k]);
    }
  }
  if (op == ReduceOp::kAvg) {
    for (T& value : sum) {
      value = static_cast<T>(value / static_cast<T>(world));
    }
  }
  std::vector<std::byte> bytes(kElements * sizeof(T));
  std::memcpy(bytes.data(), sum.data(), bytes.size());
  return reduce_expected(dtype, op, world).count_wrong(bytes.data(), kFirst, kElements);
}

template <typename T>
void sweep(DType dtype) {
  for (uint8_t op = 0; op < kReduceOpCount; ++op) {
    if (!reduction_supported(dtype, static_cast<ReduceOp>(op))) {
      continue;
    }
    for (const uint32_t world : {1U, 2U, 3U, 5U, 16U, 40U}) {
      CAPTURE(int{op}, world);
      CHECK(wrong_after_reducing<T>(dtype, static_cast<ReduceOp>(op), world, false) == 0);
      if constexpr (std::is_floating_point_v<T>) {  // whole numbers have no order of rounding
        CHECK(wrong_after_reducing<T>(dtype, static_cast<ReduceOp>(op), world, true) == 0);
      }
    }
  }
}

TEST_CASE("reducing the inputs in their own type gives the expected bits") {
  sweep<int8_t>(DType::kInt8);
  sweep<uint8_t>(DType::kUint8);
  sweep<int32_t>(DType::kInt32);
  sweep<uint32_t>(DType::kUint32);
  sweep<int64_t>(DType::kInt64);
  sweep<uint64_t>(DType::kUint64);
  sweep<float>(DType::kFloat32);
  sweep<double>(DType::kFloat64);
}

TEST_CASE("whole numbers are encoded as each floating type holds them") {
  CHECK(encode(DType::kFloat32, 3) == 0x40400000);
  CHECK(encode(DType::kFloat64, -2) == 0xc000000000000000);
  CHECK(encode(DType::kFloat16, 3) == 0x4200);
  CHECK(encode(DType::kFloat16, 2048) == 0x6800);
  CHECK(encode(DType::kBfloat16, -2) == 0xc000);
  CHECK(encode(DType::kFloat8E4m3, 16) == 0x58);
  CHECK(encode(DType::kFloat8E5m2, 6) == 0x46);
  CHECK(encode(DType::kFloat32, 0) == 0);
}

TEST_CASE("small floating types never leave the numbers that they hold exactly") {
  for (const uint32_t world : {2U, 16U, 300U}) {
    // the expected sum, encoded, is one of the encodings of 0 .. largest
    for (const auto& [dtype, largest] :
         {std::pair{DType::kFloat8E4m3, 16}, std::pair{DType::kFloat8E5m2, 8}}) {
      std::vector<std::byte> sums(kPeriod);
      reduce_expected(dtype, ReduceOp::kSum, world).fill(sums.data(), 0, kPeriod);
      std::vector<std::byte> allowed;
      for (int value = 0; value <= largest; ++value) {
        allowed.push_back(static_cast<std::byte>(encode(dtype, value)));
      }
      CHECK(std::all_of(sums.begin(), sums.end(), [&](std::byte sum) {
        return std::find(allowed.begin(), allowed.end(), sum) != allowed.end();
      }));
    }
  }
}

TEST_CASE("both halves of the widest elements are filled and differ") {
  std::vector<std::byte> bytes(kPeriod * 16);
  gather_input(DType::kComplex128, 1).fill(bytes.data(), 0, kPeriod);
  for (size_t at = 0; at < bytes.size(); at += 16) {
    REQUIRE(std::memcmp(bytes.data() + at, bytes.data() + at + 8, 8) != 0);
  }
}

TEST_CASE("a wrong element, a displaced chunk and another rank's data are seen") {
  const Table mine = gather_input(DType::kFloat32, 3);
  std::vector<std::byte> bytes(kElements * sizeof(float));
  mine.fill(bytes.data(), 0, kElements);
  CHECK(mine.count_wrong(bytes.data(), 0, kElements) == 0);
  bytes[41] ^= std::byte{1};
  CHECK(mine.count_wrong(bytes.data(), 0, kElements) == 1);
  bytes[41] ^= std::byte{1};
  CHECK(mine.count_wrong(bytes.data(), 64, kElements) > kElements * 9 / 10);
  CHECK(gather_input(DType::kFloat32, 4).count_wrong(bytes.data(), 0, kElements) >
        kElements * 9 / 10);
}

}  // namespace
}  // namespace ho::harness
