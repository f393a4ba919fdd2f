// Element types and reductions, with the numbers of the C ABI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ho {

enum class DType : uint8_t {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8E4m3 = 10,
  kFloat8E5m2 = 11,
  // From here on only bytes move: there is no arithmetic.
  kInt16 = 12,
  kUint16 = 13,
  kBool = 14,
  kComplex64 = 15,
  kComplex128 = 16,
};
inline constexpr uint8_t kDTypeCount = 17;

enum class ReduceOp : uint8_t {
  kSum = 0,
  kProd = 1,
  kMax = 2,
  kMin = 3,
  kAvg = 4,
  kBand = 5,
  kBor = 6,
  kBxor = 7,
  kPremulSum = 8,  // each rank's input times a factor of its own, then the sum
};
inline constexpr uint8_t kReduceOpCount = 9;

[[nodiscard]] size_t size_bytes(DType dtype);
[[nodiscard]] std::string_view to_string(DType dtype);                  // "float32"
[[nodiscard]] std::string_view to_string(ReduceOp op);                  // "sum"
[[nodiscard]] std::optional<DType> parse_dtype(std::string_view name);  // nccl-tests' names too
[[nodiscard]] std::optional<ReduceOp> parse_reduce_op(std::string_view name);  // likewise
// Which pairs a reduction accepts: of the types with arithmetic all but bits of floats, factors of
// integers, and averages and factors of fp8, which would round twice.
[[nodiscard]] bool reduction_supported(DType dtype, ReduceOp op);
// What to do instead of a pair that it does not accept.
[[nodiscard]] std::string_view instead_of(DType dtype, ReduceOp op);

}  // namespace ho
