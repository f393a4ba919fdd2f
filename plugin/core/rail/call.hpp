// One call of NCCL's on a rail: the window it moves and where its bytes lie.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.hpp"
#include "core/rail/window.hpp"

namespace ho::plugin::rail {

// Memory that every flow's connections know: what the driver gave for it, by flow.
struct Registration {
  std::byte* base = nullptr;
  size_t byte_count = 0;
  int32_t kind = 0;
  std::vector<void*> for_sends;
  std::vector<void*> for_receives;

  [[nodiscard]] bool covers(const void* data, size_t bytes) const {
    const auto* const begin = static_cast<const std::byte*>(data);
    return begin >= base && bytes <= byte_count &&
           static_cast<size_t>(begin - base) <= byte_count - bytes;
  }
};

struct RailCall {
  Window window;
  DType dtype = DType::kUint8;  // of reductions
  ReduceOp op = ReduceOp::kSum;
  // kAllReduce and kReduceScatter: this member's contribution to the window.
  // kAllGather: what of its own block lies in the window.
  const std::byte* mine = nullptr;
  // kAllReduce and kAllGather: the window. kReduceScatter: what of its own block lies in it.
  std::byte* result = nullptr;
  const Registration* mine_memory = nullptr;
  const Registration* result_memory = nullptr;

  // Of bytes that this member owns.
  [[nodiscard]] uint64_t in_own_block(uint64_t offset, uint32_t self) const {
    return offset - window.segment(self).offset;
  }
  [[nodiscard]] const std::byte* contribution(uint64_t offset) const { return mine + offset; }
  // Of an all-gather.
  [[nodiscard]] const std::byte* own_input(uint64_t offset, uint32_t self) const {
    return mine + in_own_block(offset, self);
  }
  [[nodiscard]] std::byte* reduced(uint64_t offset, uint32_t self) const {
    return window.kind == WindowKind::kReduceScatter ? result + in_own_block(offset, self)
                                                     : result + offset;
  }
};

// Calls outstanding at most: NCCL has up to 8 steps of up to 8 groups of channels.
inline constexpr size_t kMaxCalls = 64;

// The calls under way. One thread enters and tests, another moves them.
class Calls final : public EnteredWindows {
 public:
  // nullptr: as many are outstanding as may be. Otherwise fill it, then publish().
  [[nodiscard]] RailCall* free_call();
  // So many messages complete it; 0: it is complete. Its number. Wake the thread that moves calls,
  // for it also makes room.
  uint64_t publish(uint64_t message_count);
  [[nodiscard]] bool complete(uint64_t number) const;
  // A complete call's room is free again, once those before it are.
  void release(uint64_t number);

  [[nodiscard]] uint64_t first() const override { return first_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t end() const override { return entered_.load(std::memory_order_acquire); }
  [[nodiscard]] const Window& window(uint64_t number) const override { return at(number).window; }
  [[nodiscard]] const RailCall& at(uint64_t number) const {
    return slots_[number % kMaxCalls].call;
  }
  // By the thread that moves them: a message of the call is done.
  void message_done(uint64_t number);
  // By the same: from now on skips the calls that are complete.
  void pass_complete();

 private:
  struct Slot {
    RailCall call;
    uint64_t messages_left = 0;
    std::atomic<bool> complete{false};
    bool released = true;
  };
  std::array<Slot, kMaxCalls> slots_;
  std::atomic<uint64_t> entered_{0};
  uint64_t released_ = 0;  // every call before it
  std::atomic<uint64_t> first_{0};
};

}  // namespace ho::plugin::rail
