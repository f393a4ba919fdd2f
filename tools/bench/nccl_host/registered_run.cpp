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
  const uint64_t own = own_begin(part);
  const uint64_t sent = work_.kind == Collective::kAllGather ? own : part.offset;
  const uint64_t received = work_.kind == Collective::kReduceScatter ? own : part.offset;
  return rail_.start(work_,
                     {rail_.user_send, memory_.send_buffer(0).data() + sent},
                     {rail_.user_recv, memory_.recv_buffer(0).data() + received},
                     {work_.part_bytes(), part.offset, part.count},
                     request);
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
