#include "base/dtype.hpp"

#include <array>
#include <utility>

namespace ho {
namespace {

struct DTypeRow {
  std::string_view name;
  std::string_view short_name;
  size_t bytes;
};

constexpr std::array<DTypeRow, kDTypeCount> kDTypes{{
    {"int8", "i8", 1},
    {"uint8", "u8", 1},
    {"int32", "i32", 4},
    {"uint32", "u32", 4},
    {"int64", "i64", 8},
    {"uint64", "u64", 8},
    {"half", "fp16", 2},
    {"float", "fp32", 4},
    {"double", "fp64", 8},
    {"bfloat16", "bf16", 2},
    {"fp8_e4m3", "f8e4m3", 1},
    {"fp8_e5m2", "f8e5m2", 1},
}};

constexpr std::array<std::pair<std::string_view, DType>, 6> kDTypeAliases{{
    {"float16", DType::kFloat16},
    {"float32", DType::kFloat32},
    {"float64", DType::kFloat64},
    {"f8e4m3", DType::kFloat8E4m3},
    {"f8e5m2", DType::kFloat8E5m2},
    {"char", DType::kInt8},
}};

constexpr std::array<std::string_view, kReduceOpCount> kOps{"sum", "prod", "max", "min", "avg"};

}  // namespace

size_t size_bytes(DType dtype) {
  return kDTypes.at(static_cast<size_t>(dtype)).bytes;
}

std::string_view to_string(DType dtype) {
  return kDTypes.at(static_cast<size_t>(dtype)).name;
}

std::string_view to_string(ReduceOp op) {
  return kOps.at(static_cast<size_t>(op));
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (size_t i = 0; i < kDTypes.size(); ++i) {
    if (name == kDTypes.at(i).name || name == kDTypes.at(i).short_name) {
      return static_cast<DType>(i);
    }
  }
  for (const auto& [alias, dtype] : kDTypeAliases) {
    if (name == alias) {
      return dtype;
    }
  }
  return std::nullopt;
}

std::optional<ReduceOp> parse_reduce_op(std::string_view name) {
  for (size_t i = 0; i < kOps.size(); ++i) {
    if (name == kOps.at(i)) {
      return static_cast<ReduceOp>(i);
    }
  }
  return std::nullopt;
}

bool reduction_supported(DType dtype, ReduceOp op) {
  const bool fp8 = dtype == DType::kFloat8E4m3 || dtype == DType::kFloat8E5m2;
  return !fp8 || op != ReduceOp::kAvg;
}

}  // namespace ho
