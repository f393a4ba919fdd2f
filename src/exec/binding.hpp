// Binds a plan's chunks to a call's memory, and cuts them into pieces and passes.
//
// A chunk moves in pieces of `piece_count` elements so that it can be forwarded while it is still
// arriving. Partial sums live in scratch memory, which must stay bounded however large the call is.
// So pieces are grouped into passes, and every link runs the plan once per pass (in turns: the
// all-gather of an all-reduce may lag behind its sums by some passes). A scratch slot
// is used again by the next pass as soon as its last reader is through. All ranks compute the
// same pieces and passes from values that they have agreed on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "exec/call.hpp"
#include "plan/plan.hpp"

namespace ho {

struct BindingLimits {
  uint64_t piece_bytes = 0;  // 0: by size
  uint64_t scratch_bytes = 16U << 20;
  // Where pieces are those of devices: how many times as many bytes of scratch.
  static constexpr uint64_t kDeviceScratchFactor = 4;
  // Some rank has device memory: pieces that are worth a copy over the bus. The same on all ranks.
  bool device = false;
  // Of a piece of a chunk of so many bytes, unless scratch memory is short.
  [[nodiscard]] uint64_t piece_bytes_of(uint64_t chunk_bytes) const;
};

class Binding {
 public:
  Binding(const Plan& plan, const RankPlan& mine, const Call& call, const BindingLimits& limits);

  [[nodiscard]] uint32_t op_pieces(const PlanOp& op) const;
  // Pieces [first, end) of the op in the turn: those of the pass of that number, or of one before
  // where the op's phase lags behind the first one.
  struct PieceRange {
    uint32_t first;
    uint32_t end;
  };
  [[nodiscard]] PieceRange op_pieces_in(const PlanOp& op, uint32_t turn) const;
  [[nodiscard]] uint32_t pass_count() const { return pass_count_; }
  // How often every link goes through its ops.
  [[nodiscard]] uint32_t turn_count() const { return pass_count_ + (lags_ ? kLargestLag : 0); }
  [[nodiscard]] uint32_t pass_pieces() const { return pass_pieces_; }

  // Elements of one piece of a chunk (all of it in a whole-op plan).
  [[nodiscard]] uint64_t piece_elements(ChunkIndex chunk, uint32_t piece) const;
  // Whether the chunk's scratch is device memory.
  [[nodiscard]] bool scratch_on_device(ChunkIndex chunk) const {
    return !scratch_on_device_.empty() && scratch_on_device_[chunk.at()];
  }
  // Where that piece lies. kScratch needs set_scratch first.
  [[nodiscard]] std::byte* address(Space space, ChunkIndex chunk, uint32_t piece) const;
  // Bytes of the op's piece on the wire.
  [[nodiscard]] uint64_t wire_bytes(const PlanOp& op, uint32_t piece) const;

  // Of memory that the host may touch, and of device memory.
  [[nodiscard]] uint64_t scratch_bytes() const { return scratch_bytes_; }
  [[nodiscard]] uint64_t device_scratch_bytes() const { return device_scratch_bytes_; }
  void set_input(std::byte* input) { input_ = input; }
  void set_scratch(std::byte* scratch, std::byte* on_device) {
    scratch_ = scratch;
    device_scratch_ = on_device;
  }
  [[nodiscard]] size_t element_bytes() const { return element_bytes_; }
  [[nodiscard]] uint64_t largest_piece_bytes() const;

 private:
  void bind_chunks(const Plan& plan, const Call& call);
  void choose_pieces(const Plan& plan, const BindingLimits& limits);
  void choose_lags(const Plan& plan, const BindingLimits& limits);
  [[nodiscard]] uint32_t lag(const PlanOp& op) const;
  void choose_scratch(const RankPlan& mine, const Call& call);
  void bind_scratch(const RankPlan& mine);

  bool whole_ops_;
  size_t element_bytes_;
  size_t scratch_element_bytes_;
  std::byte* input_;
  std::byte* output_;
  std::byte* scratch_ = nullptr;
  std::byte* device_scratch_ = nullptr;
  // In elements; where the rank has the chunk there.
  std::vector<uint64_t> input_begin_;
  std::vector<uint64_t> output_begin_;
  std::vector<uint64_t> chunk_count_;
  std::vector<uint64_t> scratch_begin_;  // bytes, by chunk
  uint64_t largest_chunk_ = 0;           // elements
  uint64_t piece_count_ = 1;             // elements
  uint32_t pass_pieces_ = 1;
  uint32_t pass_count_ = 1;
  static constexpr uint32_t kLargestLag = 2;  // passes
  bool lags_ = false;
  std::vector<bool> scratch_on_device_;  // by chunk; empty: none
  uint64_t scratch_bytes_ = 0;
  uint64_t device_scratch_bytes_ = 0;
};

}  // namespace ho
