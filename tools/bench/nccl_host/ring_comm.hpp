// A communicator of NCCL's that uses the network only, on one rank: flat rings over all ranks, as
// NCCL's Ring does, hops inside a node through shared memory.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "bench/nccl_host/job_memory.hpp"
#include "bench/nccl_host/plugin_library.hpp"
#include "bench/nccl_host/ring_link.hpp"
#include "bench/nccl_host/ring_plan.hpp"
#include "bench/nccl_host/worker.hpp"

namespace ho::nccl_host {

struct RingOptions {
  uint32_t channels = 4;
  uint64_t slot_bytes = uint64_t{128} << 10;
  std::function<void()> before_connect = {};  // when this rank listens and no peer has connected

  // Of a rank's links to the next rank of its node.
  [[nodiscard]] size_t link_bytes() const { return channels * RingLink::bytes_for(slot_bytes); }
};

class RingComm {
 public:
  // Collective: connects.
  RingComm(PluginLibrary& library,
           const CommMemory& memory,
           uint64_t comm_id,
           const RingOptions& options);
  RingComm(const RingComm&) = delete;
  RingComm& operator=(const RingComm&) = delete;
  // Closes what close() has not; errors are lost.
  ~RingComm();

  // Collective, on inputs in the job's memory.
  void run(const Work& work);
  void close();
  [[nodiscard]] CommMemory& memory() { return memory_; }

 private:
  using Handle = std::array<std::byte, nccl_abi::kHandleBytes>;
  // One channel: its ring's neighbours, and what this rank has done in the current collective.
  struct Channel {
    uint32_t previous = 0;
    uint32_t next = 0;
    RingLink in;
    RingLink out;
    std::vector<RingLink::Line> in_memory;  // of links over the network
    std::vector<RingLink::Line> out_memory;
    std::unique_ptr<NetEnd> receiver;
    std::unique_ptr<NetEnd> sender;
    uint64_t step = 0;
  };

  // Chunks over the network since the channel began.
  struct Target {
    uint64_t sends = 0;
    uint64_t receives = 0;
  };
  struct Moved {
    bool any = false;
    bool open = false;  // more follows
  };

  [[nodiscard]] bool is_here(uint32_t rank) const;
  void make_channel(uint32_t number);
  void connect_channel(uint32_t number);
  void connect_ends(Channel& channel, int device, Handle next, void* listener);
  void register_ends(Channel& channel);
  [[nodiscard]] bool move(Channel& channel, const RingPlan& plan, const Work& work);
  void move_chunk(Channel& channel, const RingStep& step, const Work& work);
  void run_kernel(const Work& work, const std::vector<RingPlan>& plans);
  void wait_for_links(Backoff& backoff, uint32_t seen);
  [[nodiscard]] static Moved move_ends(Channel& channel, const Target& target);
  void run_proxy(const Work& work, const std::vector<RingPlan>& plans);
  void close_channel(Channel& channel);

  PluginLibrary& library_;
  CommMemory memory_;
  RingOptions options_;
  PluginLibrary::Contexts contexts_;
  std::vector<Channel> channels_;
  std::atomic<bool> stop_{false};
  EventCount for_kernel_;  // what the proxy has done
  bool closed_ = false;
  Worker service_;
  Worker progress_;
  Worker kernel_;
};

}  // namespace ho::nccl_host
