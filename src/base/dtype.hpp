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
};
inline constexpr uint8_t kDTypeCount = 12;

enum class ReduceOp : uint8_t { kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAvg = 4 };
inline constexpr uint8_t kReduceOpCount = 5;

[[nodiscard]] size_t size_bytes(DType dtype);
[[nodiscard]] std::string_view to_string(DType dtype);                  // "float32"
[[nodiscard]] std::string_view to_string(ReduceOp op);                  // "sum"
[[nodiscard]] std::optional<DType> parse_dtype(std::string_view name);  // nccl-tests' names too
[[nodiscard]] std::optional<ReduceOp> parse_reduce_op(std::string_view name);
// Which pairs a reduction accepts: every pair but averages of fp8, which would round twice.
[[nodiscard]] bool reduction_supported(DType dtype, ReduceOp op);

}  // namespace ho
