#include "bench/nccl_host/registered_run.hpp"

#include <algorithm>

#include "bench/nccl_host/error.hpp"
#include "bench/nccl_host/worker.hpp"

namespace ho::nccl_host {

RegisteredRun::RegisteredRun(const Work& work,
                             const RailEnd& rail,
                             CommMemory& memory,
                             uint64_t most_bytes)
    : work_(work),
      rail_(rail),
      memory_(memory),
      most_bytes_(most_bytes - most_bytes % size_bytes(work.dtype)) {
  expect(memory.shape().ranks_per_node == 1, "a node has one rank");
  expect(most_bytes_ > 0, "an element fits a call");
}

uint64_t RegisteredRun::own_begin(const Bytes& part) const {
  const uint64_t begin = memory_.rank() * work_.part_bytes();
  return std::clamp(part.offset, begin, begin + work_.part_bytes()) - begin;
}

nccl_abi::Result RegisteredRun::call(const Bytes& part, void** request) {
  std::byte* const send = memory_.send_buffer(0).data();
  std::byte* const recv = memory_.recv_buffer(0).data();
  const auto from = [&](uint64_t offset) {
    return CollNetTable::Buffer{rail_.user_send, send + offset};
  };
  const auto to = [&](uint64_t offset) {
    return CollNetTable::Buffer{rail_.user_recv, recv + offset};
  };
  const CollNetTable::Reduction reduction{static_cast<int>(work_.dtype),
                                          static_cast<int>(work_.op)};
  const CollNetTable::Window window{work_.part_bytes(), part.offset, part.count};
  switch (work_.kind) {
    case Collective::kAllReduce:
      return rail_.table->iallreduce(rail_.group,
                                     from(part.offset),
                                     to(part.offset),
                                     part.count / size_bytes(work_.dtype),
                                     reduction,
                                     request);
    case Collective::kAllGather:
      return rail_.table->iallgather(
          rail_.group, from(own_begin(part)), to(part.offset), window, request);
    case Collective::kReduceScatter:
      return rail_.table->ireducescatter(
          rail_.group, from(part.offset), to(own_begin(part)), window, reduction, request);
  }
  return nccl_abi::Result::kInternalError;
}

void RegisteredRun::wait_for(void* request) {
  Backoff backoff = waits_for("progress", work_, memory_);
  for (int done = 0; done == 0;) {
    require(rail_.table->test(request, &done, nullptr), "test of " + work_.text());
    if (done == 0) {
      expect(!memory_.failed(), "no other rank of this communicator has failed");
      backoff.pause();
    }
  }
}

void RegisteredRun::run() {
  const uint64_t all =
      work_.part_bytes() * (work_.kind == Collective::kAllReduce ? 1 : memory_.shape().nodes);
  Backoff backoff = waits_for("progress", work_, memory_);
  for (Bytes part{0, std::min(all, most_bytes_)}; part.count > 0;) {
    void* request = nullptr;
    require(call(part, &request), work_.text());
    if (request == nullptr) {
      ++again_;
      backoff.pause();
      continue;
    }
    ++calls_;
    backoff.reset();
    wait_for(request);
    part.offset += part.count;
    part.count = std::min(most_bytes_, all - part.offset);
  }
}

}  // namespace ho::nccl_host
