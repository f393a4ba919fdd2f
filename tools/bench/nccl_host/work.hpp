// One collective as a user of NCCL calls it, with inputs and results that a formula gives
// (bench/harness/values.hpp), so that every byte of every rank can be checked.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/dtype.hpp"
#include "bench/harness/collective.hpp"
#include "bench/nccl_host/job_memory.hpp"
#include "bench/nccl_host/worker.hpp"

namespace ho::nccl_host {

using harness::Collective;

struct Work {
  Collective kind = Collective::kAllReduce;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  uint64_t count = 0;  // elements: all of an all-reduce, else those of one rank

  [[nodiscard]] uint64_t part_bytes() const { return count * size_bytes(dtype); }
  // nccl-tests' size.
  [[nodiscard]] uint64_t total_bytes(uint32_t world) const {
    return kind == Collective::kAllReduce ? part_bytes() : part_bytes() * world;
  }
  [[nodiscard]] uint64_t send_bytes(uint32_t world) const {
    return kind == Collective::kReduceScatter ? part_bytes() * world : part_bytes();
  }
  [[nodiscard]] uint64_t recv_bytes(uint32_t world) const {
    return kind == Collective::kAllGather ? part_bytes() * world : part_bytes();
  }
  [[nodiscard]] std::string text() const;
};

// Of the largest size that `total` bytes allow, at least one element per rank.
[[nodiscard]] Work work_of_bytes(
    Collective kind, DType dtype, ReduceOp op, uint64_t total, uint32_t world);

[[nodiscard]] constexpr uint64_t divided_up(uint64_t a, uint64_t b) {
  return (a + b - 1) / b;
}

inline constexpr std::byte kPoison{0xa5};  // where nothing has been written

// Of one of a rank's threads, on which something of this collective must happen in time.
[[nodiscard]] Backoff waits_for(const char* thread, const Work& work, const CommMemory& memory);

// Writes a rank's input, and poison where its result will be and a little beyond.
void write_input(const Work& work, CommMemory& memory);
// Elements that differ from what they must be, and bytes beyond the result that were written.
[[nodiscard]] uint64_t count_wrong(const Work& work, CommMemory& memory);

}  // namespace ho::nccl_host
