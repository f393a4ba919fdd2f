#include "base/dtype.hpp"

#include <set>
#include <string>

#include "catch.hpp"

using namespace ho;

TEST_CASE("every type and operation is found again by its name") {
  std::set<std::string_view> names;
  for (uint8_t i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    CHECK(parse_dtype(to_string(dtype)) == dtype);
    names.insert(to_string(dtype));
  }
  for (uint8_t i = 0; i < kReduceOpCount; ++i) {
    const auto op = static_cast<ReduceOp>(i);
    CHECK(parse_reduce_op(to_string(op)) == op);
    names.insert(to_string(op));
  }
  CHECK(names.size() == size_t{kDTypeCount} + kReduceOpCount);
  CHECK(parse_reduce_op("mulsum") == ReduceOp::kPremulSum);
  CHECK_FALSE(parse_dtype("float7"));
  CHECK_FALSE(parse_reduce_op("nand"));
}

TEST_CASE("elements have the sizes that horing.h gives them") {
  for (const auto& [dtype, bytes] : {std::pair{DType::kInt8, 1},
                                     {DType::kInt16, 2},
                                     {DType::kUint16, 2},
                                     {DType::kBool, 1},
                                     {DType::kBfloat16, 2},
                                     {DType::kComplex64, 8},
                                     {DType::kComplex128, 16}}) {
    INFO(to_string(dtype));
    CHECK(size_bytes(dtype) == static_cast<size_t>(bytes));
  }
}

TEST_CASE("which pairs are reduced, and what to do with the others") {
  const auto refused = [](DType dtype, ReduceOp op, const std::string& remedy) {
    INFO(to_string(op) << " of " << to_string(dtype) << ": " << instead_of(dtype, op));
    CHECK_FALSE(reduction_supported(dtype, op));
    CHECK(instead_of(dtype, op).find(remedy) != std::string_view::npos);
  };
  for (uint8_t i = 0; i < kReduceOpCount; ++i) {
    const auto op = static_cast<ReduceOp>(i);
    refused(DType::kInt16, op, "int32");
    refused(DType::kUint16, op, "int32");
    refused(DType::kBool, op, "uint8, with bor");
    refused(DType::kComplex64, op, "twice as many floats");
    refused(DType::kComplex128, op, "twice as many doubles");
    CHECK(reduction_supported(DType::kInt8, op) == (op != ReduceOp::kPremulSum));
    CHECK(reduction_supported(DType::kUint64, op) == (op != ReduceOp::kPremulSum));
  }
  for (const ReduceOp op : {ReduceOp::kBand, ReduceOp::kBor, ReduceOp::kBxor}) {
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat8E5m2}) {
      refused(dtype, op, "integers");
    }
  }
  refused(DType::kInt64, ReduceOp::kPremulSum, "scale the result");
  for (const DType dtype : {DType::kFloat8E4m3, DType::kFloat8E5m2}) {
    refused(dtype, ReduceOp::kAvg, "a wider type");
    refused(dtype, ReduceOp::kPremulSum, "a wider type");
    CHECK(reduction_supported(dtype, ReduceOp::kSum));
  }
  for (const DType dtype : {DType::kFloat16, DType::kBfloat16, DType::kFloat32, DType::kFloat64}) {
    CHECK(reduction_supported(dtype, ReduceOp::kPremulSum));
    CHECK(reduction_supported(dtype, ReduceOp::kAvg));
  }
}
