// Every kernel: its name and what it runs. The .cu file makes kernels of this list, kernels.cpp
// looks them up by it, and the tests' double runs the same functions on a host.
#pragma once

#include "device/kernels/loops.hpp"
#include "device/kernels/reductions.hpp"

// X(name, types...): ho_sum_DST_SRC_INCOMING, or of one type.
// NOLINTBEGIN(cppcoreguidelines-macro-usage): names are made into symbols, texts and functions
#define HORING_SUM_KERNELS(X)                                               \
  X(ho_sum_int8, Integer<int8_t>, Integer<int8_t>, Integer<int8_t>)         \
  X(ho_sum_uint8, Integer<uint8_t>, Integer<uint8_t>, Integer<uint8_t>)     \
  X(ho_sum_int32, Integer<int32_t>, Integer<int32_t>, Integer<int32_t>)     \
  X(ho_sum_uint32, Integer<uint32_t>, Integer<uint32_t>, Integer<uint32_t>) \
  X(ho_sum_int64, Integer<int64_t>, Integer<int64_t>, Integer<int64_t>)     \
  X(ho_sum_uint64, Integer<uint64_t>, Integer<uint64_t>, Integer<uint64_t>) \
  X(ho_sum_float16, Float16, Float16, Float16)                              \
  X(ho_sum_float32, Float32, Float32, Float32)                              \
  X(ho_sum_float64, Float64, Float64, Float64)                              \
  X(ho_sum_bfloat16, Bfloat16, Bfloat16, Bfloat16)                          \
  X(ho_sum_float8_e4m3, Float8E4m3, Float8E4m3, Float8E4m3)                 \
  X(ho_sum_float8_e5m2, Float8E5m2, Float8E5m2, Float8E5m2)                 \
  X(ho_sum_float32_float32_float16, Float32, Float32, Float16)              \
  X(ho_sum_float32_float16_float16, Float32, Float16, Float16)              \
  X(ho_sum_float16_float32_float16, Float16, Float32, Float16)              \
  X(ho_sum_float32_float32_bfloat16, Float32, Float32, Bfloat16)            \
  X(ho_sum_float32_bfloat16_bfloat16, Float32, Bfloat16, Bfloat16)          \
  X(ho_sum_bfloat16_float32_bfloat16, Bfloat16, Float32, Bfloat16)

#define HORING_PREMULTIPLY_KERNELS(X) \
  X(ho_premultiply_float16, Float16)  \
  X(ho_premultiply_float32, Float32)  \
  X(ho_premultiply_float64, Float64)  \
  X(ho_premultiply_bfloat16, Bfloat16)

// X(name, Dst, Src)
#define HORING_CONVERT_KERNELS(X)                   \
  X(ho_convert_float32_float16, Float32, Float16)   \
  X(ho_convert_float32_bfloat16, Float32, Bfloat16) \
  X(ho_convert_float16_float32, Float16, Float32)   \
  X(ho_convert_bfloat16_float32, Bfloat16, Float32) \
  X(ho_convert_float16_bfloat16, Float16, Bfloat16) \
  X(ho_convert_bfloat16_float16, Bfloat16, Float16)

// Of the gradient's type.
#define HORING_ADAMW_KERNELS(X) \
  X(ho_adamw_float16, Float16)  \
  X(ho_adamw_float32, Float32)  \
  X(ho_adamw_bfloat16, Bfloat16)

#define HORING_SGD_KERNELS(X) \
  X(ho_sgd_float16, Float16)  \
  X(ho_sgd_float32, Float32)  \
  X(ho_sgd_bfloat16, Bfloat16)

// Sums for each tile.
#define HORING_NORM_KERNELS(X) \
  X(ho_norm_float16, Float16)  \
  X(ho_norm_float32, Float32)  \
  X(ho_norm_bfloat16, Bfloat16)

// X(name, Arguments): each written by itself.
#define HORING_SINGLE_KERNELS(X)         \
  X(ho_finish_norm, FinishNormArguments) \
  X(ho_decide, DecideArguments)          \
  X(ho_hash, HashArguments)              \
  X(ho_finish_hash, FinishHashArguments) \
  X(ho_zero, ZeroArguments)              \
  X(ho_copy_ranges, CopyArguments)
// NOLINTEND(cppcoreguidelines-macro-usage)
