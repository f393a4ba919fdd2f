// What collectives do with their bytes.
#include <array>
#include <cstring>

#include "base/dtype.hpp"
#include "reduce/reduce.hpp"
#include "state.hpp"

namespace ho::nccl_double {
namespace {

DType dtype_of(const Shape& shape) {
  return static_cast<DType>(shape.type);
}

// The sum of all ranks' elements from that byte on.
std::vector<std::byte> sum_at(const Shape& shape,
                              const Buffers& buffers,
                              size_t offset,
                              const cuda_double::Translate& translate) {
  const size_t bytes = shape.count * size_bytes(dtype_of(shape));
  std::vector<std::byte> sum(bytes);
  bool first = true;
  for (const void* send : buffers.send) {
    const auto* const from = static_cast<const std::byte*>(translate(send)) + offset;
    if (first) {
      std::memcpy(sum.data(), from, bytes);
    } else {
      reduce(dtype_of(shape), ReduceOp::kSum, sum.data(), sum.data(), from, shape.count);
    }
    first = false;
  }
  return sum;
}

}  // namespace

std::string to_string(const Shape& shape) {
  constexpr std::array kNames{"all-gather", "reduce-scatter", "all-reduce", "broadcast"};
  return std::string(kNames.at(static_cast<size_t>(shape.kind))) + " of " +
         std::to_string(shape.count) + " " + std::string(ho::to_string(dtype_of(shape))) +
         (shape.kind == Kind::kBroadcast ? " from rank " + std::to_string(shape.root) : "");
}

std::vector<cuda_double::TouchedRange> touched(
    const Shape& shape, size_t ranks, int rank, const void* send, void* recv) {
  const size_t bytes = shape.count * size_bytes(dtype_of(shape));
  const size_t read = shape.kind == Kind::kReduceScatter ? bytes * ranks : bytes;
  const size_t written = shape.kind == Kind::kAllGather ? bytes * ranks : bytes;
  std::vector<cuda_double::TouchedRange> ranges{{recv, written, true, 0}};
  if (shape.kind != Kind::kBroadcast || rank == shape.root) {
    ranges.push_back({send, read, false, 0});
  }
  return ranges;
}

void compute(const Shape& shape, const Buffers& buffers, const cuda_double::Translate& translate) {
  const size_t bytes = shape.count * size_bytes(dtype_of(shape));
  const size_t ranks = buffers.send.size();
  if (bytes == 0) {
    return;
  }
  // Whole before anything is written: data may be in place.
  std::vector<std::byte> all;
  const auto add = [&](const std::byte* from) { all.insert(all.end(), from, from + bytes); };
  switch (shape.kind) {
    case Kind::kAllGather:
      for (const void* send : buffers.send) {
        add(static_cast<const std::byte*>(translate(send)));
      }
      break;
    case Kind::kReduceScatter:
      for (size_t rank = 0; rank < ranks; ++rank) {
        add(sum_at(shape, buffers, rank * bytes, translate).data());
      }
      break;
    case Kind::kAllReduce:
      add(sum_at(shape, buffers, 0, translate).data());
      break;
    case Kind::kBroadcast:
      add(static_cast<const std::byte*>(translate(buffers.send[static_cast<size_t>(shape.root)])));
      break;
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    const bool own_part = shape.kind == Kind::kReduceScatter;
    std::memcpy(translate(buffers.recv[rank]),
                all.data() + (own_part ? rank * bytes : 0),
                own_part ? bytes : all.size());
  }
}

}  // namespace ho::nccl_double
