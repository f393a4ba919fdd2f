// One collective through CollNet on one rank: the double of NCCL's kernel, which fills send slots
// with what the node has and spreads what arrives from the rail, and the proxy, which hands slots
// to the plugin. They run on two threads and meet in the counters of each channel only, so that up
// to kSlots chunks of a channel are under way.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "bench/nccl_host/coll_plan.hpp"
#include "bench/nccl_host/job_memory.hpp"
#include "bench/nccl_host/tables.hpp"
#include "bench/nccl_host/worker.hpp"

namespace ho::nccl_host {

// What a communicator of NCCL's has of a rail.
struct RailEnd {
  CollNetTable* table = nullptr;
  void* group = nullptr;
  std::byte* region = nullptr;
  // Of the region, registered once for sends and once for receives per channel.
  std::vector<void*> send_memory;
  std::vector<void*> recv_memory;
  // The user's two buffers, where they are registered: an all-gather then sends from the one, a
  // reduce-scatter receives into the other.
  void* user_send = nullptr;
  void* user_recv = nullptr;

  // Makes the table's call for the work: all-reduces of window.bytes, others of that window.
  [[nodiscard]] nccl_abi::Result start(const Work& work,
                                       const CollNetTable::Buffer& from,
                                       const CollNetTable::Buffer& to,
                                       const CollNetTable::Window& window,
                                       void** request) const;
};

class CollRun {
 public:
  using Side = CollPlan::Side;
  // poison: what no data is written to holds changing bytes, as if from earlier collectives.
  CollRun(const CollPlan& plan, const RailEnd& rail, CommMemory& memory, bool poison);
  CollRun(const CollRun&) = delete;
  CollRun& operator=(const CollRun&) = delete;
  ~CollRun() = default;

  // On the kernel's thread. Returns when all results lie in the users' buffers, or after stop().
  void run_kernel();
  // On the progress thread. Throws PluginError where the plugin refuses a call.
  void run_proxy();
  void stop();
  [[nodiscard]] uint64_t calls() const { return calls_; }
  // Times that the plugin returned "again".
  [[nodiscard]] uint64_t again() const { return again_; }

 private:
  struct Channel {
    std::atomic<uint64_t> filled{0};    // by the kernel, chunks
    std::atomic<uint64_t> received{0};  // by the proxy
    std::atomic<uint64_t> drained{0};   // by the kernel
  };

  // Kernel.
  void fill(uint64_t step, uint32_t channel);
  void drain(uint64_t step, uint32_t channel);
  void reduce_local(std::byte* to, uint64_t offset, uint64_t bytes);
  // Calls move(done, offset, bytes) for each part of a chunk that lies in one rank's block: how far
  // it is into the chunk, into all ranks' blocks, and how long.
  template <typename Move>
  void each_block(const Bytes& chunk, const Move& move) const;
  // Proxy.
  [[nodiscard]] bool may_post(uint64_t step, uint32_t group) const;
  [[nodiscard]] bool post(uint64_t step, uint32_t group);
  [[nodiscard]] nccl_abi::Result call(uint64_t step, uint32_t group, void** request);
  [[nodiscard]] CollNetTable::Buffer buffer(Side side, uint64_t step, uint32_t group) const;
  // Of this side the plugin gets the user's buffer, not the region.
  [[nodiscard]] bool takes_users(Side side) const;
  [[nodiscard]] bool test_oldest(uint32_t group);
  void complete(uint32_t group);

  const CollPlan& plan_;
  const RailEnd& rail_;
  CommMemory& memory_;
  bool poison_;
  std::vector<Channel> channels_;
  std::vector<std::deque<void*>> requests_;  // by group, oldest first; null: nothing to wait for
  std::vector<uint64_t> completed_;          // by group
  uint64_t calls_ = 0;
  uint64_t again_ = 0;
  std::atomic<bool> stop_{false};
  EventCount for_kernel_;  // what the proxy has done
};

}  // namespace ho::nccl_host
