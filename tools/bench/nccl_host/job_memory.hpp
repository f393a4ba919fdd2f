// What the processes of an emulated job share; all are on one machine. It has the host's own
// bootstrap (NCCL's runs over sockets), the users' buffers, through which the ranks of a node reach
// each other as over NVLink, and the links between neighbours of a node.
//
// Every wait has a deadline, and ends at once when a rank reports that it has failed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "os/fd.hpp"
#include "os/shared_memory.hpp"

namespace ho::nccl_host {

// Ranks are numbered node by node.
struct JobShape {
  uint32_t nodes = 1;
  uint32_t ranks_per_node = 1;

  [[nodiscard]] uint32_t world() const { return nodes * ranks_per_node; }
  [[nodiscard]] uint32_t node_of(uint32_t rank) const { return rank / ranks_per_node; }
  [[nodiscard]] uint32_t local_of(uint32_t rank) const { return rank % ranks_per_node; }
  [[nodiscard]] uint32_t rank_of(uint32_t node, uint32_t local) const {
    return node * ranks_per_node + local;
  }
};

struct JobLayout {
  JobShape shape;
  uint32_t communicators = 1;  // that exist at once
  size_t buffer_bytes = 0;     // of each of a rank's two buffers per communicator
  size_t link_bytes = 0;       // for a rank's links to the next rank of its node
};

class CommMemory;

class JobMemory {
 public:
  // Processes that are forked from this one have it too. Where they were started separately, one
  // creates it, listens at a path that all reach (nodes have no other memory in common), and gives
  // it to those that connect there.
  [[nodiscard]] static JobMemory create(const JobLayout& layout);
  [[nodiscard]] static Fd listen_at(const std::string& path);
  void hand_out(const Fd& listener, const std::string& path, uint32_t to_ranks);
  [[nodiscard]] static JobMemory join(const std::string& path, const JobLayout& layout);

  [[nodiscard]] const JobLayout& layout() const { return layout_; }
  // What a communicator has of it, seen by one rank.
  [[nodiscard]] CommMemory comm(uint32_t index, uint32_t rank, std::chrono::milliseconds timeout);

 private:
  JobMemory(const JobLayout& layout, SharedMemory memory)
      : layout_(layout), memory_(std::move(memory)) {}

  JobLayout layout_;
  SharedMemory memory_;
};

// A counter that each rank that arrives raises.
struct SharedBarrier {
  std::atomic<uint64_t> arrived;
};

class CommMemory {
 public:
  static constexpr size_t kMaxRanks = 64;
  static constexpr size_t kSegmentInfoBytes = 512;
  struct Header {
    std::atomic<uint32_t> failed;
    SharedBarrier world;
    SharedBarrier node[kMaxRanks];
    // How often each rank has passed; here, because communicators are made and freed in the same
    // memory.
    struct Rounds {
      uint64_t world;
      uint64_t node;
      uint64_t gathers;
    } rounds[kMaxRanks];
    std::byte infos[2][kMaxRanks][kSegmentInfoBytes];
  };

  CommMemory(const JobLayout& layout,
             std::byte* base,
             uint32_t rank,
             std::chrono::milliseconds timeout);
  [[nodiscard]] static size_t bytes_for(const JobLayout& layout);

  [[nodiscard]] const JobShape& shape() const { return layout_.shape; }
  [[nodiscard]] uint32_t rank() const { return rank_; }
  [[nodiscard]] uint32_t node() const { return shape().node_of(rank_); }
  [[nodiscard]] uint32_t local() const { return shape().local_of(rank_); }
  [[nodiscard]] std::chrono::milliseconds timeout() const { return timeout_; }

  void world_barrier() { pass(header().world, rounds().world, shape().world(), "all ranks"); }
  void node_barrier() {
    pass(header().node[node()], rounds().node, shape().ranks_per_node, "the ranks of this node");
  }
  // The info of all ranks, by rank. One thread of a rank at a time.
  template <typename Card>
  [[nodiscard]] std::vector<Card> all_gather(const Card& mine) {
    static_assert(sizeof(Card) <= kSegmentInfoBytes && std::is_trivially_copyable_v<Card>);
    auto& infos = header().infos[rounds().gathers++ % 2];
    std::memcpy(infos[rank_], &mine, sizeof(mine));
    world_barrier();
    std::vector<Card> all(shape().world());
    for (size_t rank = 0; rank < all.size(); ++rank) {
      std::memcpy(&all[rank], infos[rank], sizeof(Card));
    }
    return all;
  }
  // Ends all ranks' waits in this communicator.
  void fail() { header().failed.store(1); }
  [[nodiscard]] bool failed() { return header().failed.load() != 0; }

  [[nodiscard]] std::span<std::byte> send_buffer(uint32_t local) { return buffer(local, 0); }
  [[nodiscard]] std::span<std::byte> recv_buffer(uint32_t local) { return buffer(local, 1); }
  // From a rank of this node to the next one.
  [[nodiscard]] std::span<std::byte> link_from(uint32_t local);

 private:
  [[nodiscard]] Header& header();
  [[nodiscard]] Header::Rounds& rounds() { return header().rounds[rank_]; }
  [[nodiscard]] std::byte* after_header(size_t offset) const;
  [[nodiscard]] std::span<std::byte> buffer(uint32_t local, size_t which);
  void pass(SharedBarrier& barrier, uint64_t& rounds, uint32_t members, const char* who);

  JobLayout layout_;
  std::byte* base_;
  uint32_t rank_;
  std::chrono::milliseconds timeout_;
};

}  // namespace ho::nccl_host
