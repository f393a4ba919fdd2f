// One collective through CollNet on users' registered buffers, as NCCL runs it where a node has one
// rank: no kernel's slots between, and no channels; the plugin gets the buffers themselves in calls
// as large as its devices allow, one after another. An all-gather's first call so has all blocks.
#pragma once

#include <cstdint>

#include "bench/nccl_host/coll_run.hpp"
#include "bench/nccl_host/job_memory.hpp"
#include "bench/nccl_host/work.hpp"

namespace ho::nccl_host {

class RegisteredRun {
 public:
  // rail.user_send and rail.user_recv are the rank's buffers; most_bytes: of a call.
  RegisteredRun(const Work& work, const RailEnd& rail, CommMemory& memory, uint64_t most_bytes);

  // On the progress thread. Throws PluginError where the plugin refuses a call.
  void run();
  [[nodiscard]] uint64_t calls() const { return calls_; }
  // Times that the plugin returned "again".
  [[nodiscard]] uint64_t again() const { return again_; }

 private:
  [[nodiscard]] nccl_abi::Result call(const Bytes& part, void** request);
  void wait_for(void* request);
  // What of `part` is this node's block, from the block's begin.
  [[nodiscard]] uint64_t own_begin(const Bytes& part) const;

  const Work& work_;
  const RailEnd& rail_;
  CommMemory& memory_;
  uint64_t most_bytes_;
  uint64_t calls_ = 0;
  uint64_t again_ = 0;
};

}  // namespace ho::nccl_host
