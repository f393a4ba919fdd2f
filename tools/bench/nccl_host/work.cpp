#include "bench/nccl_host/work.hpp"

#include <algorithm>

#include "bench/harness/values.hpp"
#include "bench/nccl_host/error.hpp"

namespace ho::nccl_host {
namespace {

constexpr uint64_t kBeyond = 64;

bool gathers(const Work& work) {
  return work.kind == Collective::kAllGather;
}

// Byte values, so that the place in the table is the place in bytes.
harness::Table gathered(uint32_t rank) {
  return harness::gather_input(DType::kUint8, rank);
}

std::span<std::byte> beyond(const Work& work, CommMemory& memory) {
  const auto buffer = memory.recv_buffer(memory.local());
  const uint64_t bytes = work.recv_bytes(memory.shape().world());
  return buffer.subspan(bytes, std::min(kBeyond, buffer.size() - bytes));
}

}  // namespace

Backoff waits_for(const char* thread, const Work& work, const CommMemory& memory) {
  return {std::string(thread) + " of rank " + std::to_string(memory.rank()) + ", " + work.text(),
          memory.timeout()};
}

std::string Work::text() const {
  std::string name(harness::to_string(kind));
  name += gathers(*this) ? "" : " " + std::string(to_string(op));
  return name + " of " + std::to_string(count) + " " + std::string(to_string(dtype));
}

Work work_of_bytes(Collective kind, DType dtype, ReduceOp op, uint64_t total, uint32_t world) {
  Work work{kind, dtype, op, total / size_bytes(dtype)};
  if (kind != Collective::kAllReduce) {
    work.count /= world;
  }
  work.count = std::max<uint64_t>(work.count, 1);
  return work;
}

void write_input(const Work& work, CommMemory& memory) {
  const uint32_t world = memory.shape().world();
  const auto send = memory.send_buffer(memory.local());
  const auto recv = memory.recv_buffer(memory.local());
  expect(work.send_bytes(world) <= send.size() && work.recv_bytes(world) <= recv.size(),
         work.text() + " fits the buffers");
  if (gathers(work)) {
    gathered(memory.rank()).fill(send.data(), 0, work.part_bytes());
  } else {
    harness::reduce_input(work.dtype, work.op, world, memory.rank())
        .fill(send.data(), 0, work.send_bytes(world) / size_bytes(work.dtype));
  }
  std::fill_n(recv.begin(), work.recv_bytes(world), kPoison);
  std::ranges::fill(beyond(work, memory), kPoison);
}

uint64_t count_wrong(const Work& work, CommMemory& memory) {
  const uint32_t world = memory.shape().world();
  const std::byte* const recv = memory.recv_buffer(memory.local()).data();
  const auto past = beyond(work, memory);
  auto wrong = static_cast<uint64_t>(
      std::ranges::count_if(past, [](std::byte byte) { return byte != kPoison; }));
  if (gathers(work)) {
    for (uint32_t rank = 0; rank < world; ++rank) {
      const std::byte* const part = recv + rank * work.part_bytes();
      wrong += gathered(rank).count_wrong(part, 0, work.part_bytes());
    }
    return wrong;
  }
  const uint64_t first = work.kind == Collective::kReduceScatter ? memory.rank() * work.count : 0;
  return wrong +
         harness::reduce_expected(work.dtype, work.op, world).count_wrong(recv, first, work.count);
}

}  // namespace ho::nccl_host
