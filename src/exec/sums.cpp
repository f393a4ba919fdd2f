#include "exec/sums.hpp"

#include <algorithm>
#include <array>

#include "reduce/reduce.hpp"

namespace ho {
namespace {

constexpr uint64_t kTile = 2048;

const float* as_float(const std::byte* bytes) {
  return reinterpret_cast<const float*>(bytes);
}
float* as_float(std::byte* bytes) {
  return reinterpret_cast<float*>(bytes);
}

void sum_fp32(const Call& call, const PlanOp& op, float* dst, const Addends& addends) {
  if (op.src == Space::kScratch) {
    reduce_widening(
        call.dtype, call.op, dst, as_float(addends.src), addends.incoming, addends.elements);
  } else {
    reduce_widening_pair(call.dtype, call.op, dst, addends.src, addends.incoming, addends.elements);
  }
  if (op.final_sum && call.op == ReduceOp::kAvg) {
    scale_average(DType::kFloat32, dst, addends.elements, call.world_size);
  }
}

void add_fp32(const Call& call, const PlanOp& op, const Addends& addends) {
  if (op.dst == Space::kScratch) {
    sum_fp32(call, op, as_float(addends.dst), addends);
    return;
  }
  std::array<float, kTile> tile;
  const size_t narrow_bytes = size_bytes(call.dtype);
  const size_t src_bytes = op.src == Space::kScratch ? sizeof(float) : narrow_bytes;
  for (uint64_t at = 0; at < addends.elements; at += kTile) {
    const uint64_t count = std::min(kTile, addends.elements - at);
    sum_fp32(call,
             op,
             tile.data(),
             {nullptr, addends.src + at * src_bytes, addends.incoming + at * narrow_bytes, count});
    narrow(call.dtype, addends.dst + at * narrow_bytes, tile.data(), count);
  }
}

}  // namespace

void add(const Call& call, const PlanOp& op, const Addends& addends) {
  if (addends.elements == 0) {
    return;
  }
  if (call.fp32_sums) {
    add_fp32(call, op, addends);
    return;
  }
  reduce(call.dtype, call.op, addends.dst, addends.src, addends.incoming, addends.elements);
  if (op.final_sum && call.op == ReduceOp::kAvg) {
    scale_average(call.dtype, addends.dst, addends.elements, call.world_size);
  }
}

void narrow_in_place(const Call& call, std::byte* sums, uint64_t elements) {
  narrow(call.dtype, sums, as_float(sums), elements);
}

}  // namespace ho
