// The slots between one rank of a ring and the next, and how the network's proxy moves them: on
// the sender what the kernel has filled, on the receiver into what it has drained. Between ranks of
// a node both kernels use the same slots, in shared memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>

#include "bench/nccl_host/coll_plan.hpp"
#include "bench/nccl_host/tables.hpp"

namespace ho::nccl_host {

class RingLink {
 public:
  struct alignas(64) Line {
    std::array<std::byte, 64> bytes;
  };
  struct Header {
    alignas(64) std::atomic<uint64_t> filled;
    alignas(64) std::atomic<uint64_t> drained;
    alignas(64) std::array<uint64_t, kSlots> bytes;
  };

  RingLink() = default;
  // memory: bytes_for(slot_bytes), zero at first.
  RingLink(std::span<std::byte> memory, size_t slot_bytes)
      : memory_(memory), slot_bytes_(slot_bytes) {}
  [[nodiscard]] static size_t bytes_for(size_t slot_bytes) {
    return sizeof(Header) + kSlots * slot_bytes;
  }

  [[nodiscard]] Header& header() const { return *reinterpret_cast<Header*>(memory_.data()); }
  [[nodiscard]] std::byte* slot(uint64_t number) const {
    return memory_.data() + sizeof(Header) + number % kSlots * slot_bytes_;
  }
  [[nodiscard]] std::span<std::byte> memory() const { return memory_; }
  [[nodiscard]] size_t slot_bytes() const { return slot_bytes_; }

  // The kernels' sides.
  [[nodiscard]] bool has_space() const {
    return header().filled.load(std::memory_order_relaxed) <
           header().drained.load(std::memory_order_acquire) + kSlots;
  }
  [[nodiscard]] bool has_chunk() const {
    return header().drained.load(std::memory_order_relaxed) <
           header().filled.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::byte* to_fill() const { return slot(header().filled.load()); }
  void filled(uint64_t bytes) const;
  [[nodiscard]] const std::byte* to_drain() const { return slot(header().drained.load()); }
  void drained() const;

 private:
  std::span<std::byte> memory_;
  size_t slot_bytes_ = 0;
};

// One end of a link over the network.
struct NetEnd {
  NetTable* table = nullptr;
  void* comm = nullptr;
  void* memory = nullptr;  // of the link's slots
  int tag = 0;
  RingLink link;
  uint64_t posted = 0;  // chunks, since the link began
  std::deque<void*> requests;

  // Each moves what it can of `target` chunks since the link began; true: something. Throws
  // PluginError.
  bool send(uint64_t target);
  bool receive(uint64_t target);
};

}  // namespace ho::nccl_host
