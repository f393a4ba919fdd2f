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
    {"int16", "i16", 2},
    {"uint16", "u16", 2},
    {"bool", "b8", 1},
    {"complex64", "c64", 8},
    {"complex128", "c128", 16},
}};

constexpr std::array<std::pair<std::string_view, DType>, 6> kDTypeAliases{{
    {"float16", DType::kFloat16},
    {"float32", DType::kFloat32},
    {"float64", DType::kFloat64},
    {"f8e4m3", DType::kFloat8E4m3},
    {"f8e5m2", DType::kFloat8E5m2},
    {"char", DType::kInt8},
}};

constexpr std::array<std::string_view, kReduceOpCount> kOps{
    "sum", "prod", "max", "min", "avg", "band", "bor", "bxor", "premul_sum"};

bool is_integer(DType dtype) {
  return dtype < DType::kFloat16;
}

bool is_fp8(DType dtype) {
  return dtype == DType::kFloat8E4m3 || dtype == DType::kFloat8E5m2;
}

bool is_bitwise(ReduceOp op) {
  return op == ReduceOp::kBand || op == ReduceOp::kBor || op == ReduceOp::kBxor;
}

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
  if (name == "mulsum") {  // nccl-tests' name
    return ReduceOp::kPremulSum;
  }
  return std::nullopt;
}

bool reduction_supported(DType dtype, ReduceOp op) {
  if (dtype >= DType::kInt16) {
    return false;
  }
  if (is_integer(dtype)) {
    return op != ReduceOp::kPremulSum;
  }
  return !is_bitwise(op) &&
         (!is_fp8(dtype) || (op != ReduceOp::kAvg && op != ReduceOp::kPremulSum));
}

std::string_view instead_of(DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::kInt16:
    case DType::kUint16:
      return "reduce it as int32";
    case DType::kBool:
      return "reduce it as uint8, with bor for 'any' or band for 'all'";
    case DType::kComplex64:
      return "sum it as twice as many floats";
    case DType::kComplex128:
      return "sum it as twice as many doubles";
    default:
      break;
  }
  if (is_bitwise(op)) {
    return "bitwise operations take integers: reduce the same bits as one";
  }
  return is_fp8(dtype) ? "reduce a wider type, or sum and then divide or scale"
                       : "sum, and scale the result";
}

}  // namespace ho
