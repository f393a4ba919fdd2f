#include "exec/binding.hpp"

#include <algorithm>
#include <limits>
#include <optional>

namespace ho {
namespace {

constexpr uint64_t kSmallestPieceBytes = 8U << 10;
constexpr uint64_t kLargestPieceBytes = 64U << 10;
constexpr uint64_t kSmallestDevicePieceBytes = 256U << 10;
constexpr uint64_t kLargestDevicePieceBytes = 8U << 20;
// Of sums of device data in the two-level ring: how many pieces a link carries of one op before it
// turns to the next. Groups' sums for later steps come early enough then (before this, a group's
// own sum came after all that it sends to others, and what arrived for it had to wait), and there
// are enough pieces that one's hop to the next group hides behind the others'.
constexpr uint64_t kDevicePassPieces = 4;
constexpr uint64_t kPieceAlignment = 4096;
// A cache line: where the scratch of each chunk begins.
constexpr uint64_t kSlotAlignment = 64;
// Enough pieces per chunk that the last one, which nothing overlaps, is a small part of it.
constexpr uint64_t kPiecesPerChunk = 16;
constexpr uint64_t kUnplaced = std::numeric_limits<uint64_t>::max();

uint64_t divide_up(uint64_t value, uint64_t by) {
  return (value + by - 1) / by;
}

}  // namespace

uint64_t BindingLimits::piece_bytes_of(uint64_t chunk_bytes) const {
  if (piece_bytes != 0) {
    return piece_bytes;
  }
  return std::clamp(divide_up(chunk_bytes / kPiecesPerChunk, kPieceAlignment) * kPieceAlignment,
                    device ? kSmallestDevicePieceBytes : kSmallestPieceBytes,
                    device ? kLargestDevicePieceBytes : kLargestPieceBytes);
}

Binding::Binding(const Plan& plan,
                 const RankPlan& mine,
                 const Call& call,
                 const BindingLimits& limits)
    : whole_ops_(plan.whole_ops),
      element_bytes_(size_bytes(call.dtype)),
      scratch_element_bytes_(call.fp32_sums ? sizeof(float) : element_bytes_),
      // Nothing is written through it: verify() refuses plans that write the input.
      // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
      input_(const_cast<std::byte*>(call.input)),
      output_(call.output) {
  bind_chunks(plan, call);
  choose_pieces(plan, limits);
  choose_lags(plan, limits);
  choose_scratch(mine, call);
  bind_scratch(mine);
}

// In both buffers the blocks that the rank has there lie one after the other. The chunks are in the
// order of their blocks, and have all of these.
void Binding::bind_chunks(const Plan& plan, const Call& call) {
  uint64_t input_end = 0;
  uint64_t output_end = 0;
  uint64_t input = 0;
  uint64_t output = 0;
  input_begin_.reserve(plan.chunks.size());
  output_begin_.reserve(plan.chunks.size());
  chunk_count_.reserve(plan.chunks.size());
  std::optional<uint32_t> block;
  for (const Chunk& chunk : plan.chunks) {
    const uint64_t length = call.block_counts.of(chunk.block);
    if (block != chunk.block) {
      block = chunk.block;
      input = input_end;
      output = output_end;
      const BlockRole role = role_of(plan, chunk.block, call.world_size);
      input_end += role.in_input(call.self) ? length : 0;
      output_end += role.in_output(call.self) ? length : 0;
    }
    const uint64_t begin = length * chunk.part / chunk.parts;
    const uint64_t end = length * (chunk.part + 1) / chunk.parts;
    input_begin_.push_back(input + begin);
    output_begin_.push_back(output + begin);
    chunk_count_.push_back(end - begin);
    largest_chunk_ = std::max(largest_chunk_, end - begin);
  }
  if (plan.own_chunks) {  // ranks have different chunks, and must cut equal pieces
    largest_chunk_ = call.block_counts.largest();
  }
}

void Binding::choose_pieces(const Plan& plan, const BindingLimits& limits) {
  if (whole_ops_) {
    piece_count_ = std::max<uint64_t>(largest_chunk_, 1);
    return;
  }
  const uint64_t slots = plan.scratch_chunk_count;
  const uint64_t expansion = scratch_element_bytes_ / element_bytes_;
  // A slot's share is whole lines, so that rounding slots up to lines leaves all within the limit.
  const uint64_t share = limits.scratch_bytes / std::max<uint64_t>(slots, 1);
  const uint64_t slot_budget = share / kSlotAlignment * kSlotAlignment / expansion;
  const bool short_passes = limits.device && slots > 0 && plan.algorithm == Algorithm::kHoRing &&
                            has_sums(plan.collective);
  uint64_t bytes = limits.piece_bytes_of(largest_chunk_ * element_bytes_);
  if (limits.piece_bytes == 0 && short_passes) {
    bytes = std::min(bytes,
                     std::max(slot_budget / kDevicePassPieces / kPieceAlignment * kPieceAlignment,
                              kSmallestDevicePieceBytes));
  }
  if (slots > 0) {
    bytes = std::min(bytes, std::max(slot_budget, element_bytes_));
  }
  piece_count_ = std::max<uint64_t>(bytes / element_bytes_, 1);
  const uint64_t pieces = std::max<uint64_t>(divide_up(largest_chunk_, piece_count_), 1);
  uint64_t pass =
      slots > 0 ? std::max<uint64_t>(slot_budget / (piece_count_ * element_bytes_), 1) : pieces;
  if (short_passes) {
    pass = std::min(pass, kDevicePassPieces);
  }
  pass_pieces_ = static_cast<uint32_t>(std::min(pass, pieces));
  pass_count_ = static_cast<uint32_t>(divide_up(pieces, pass_pieces_));
}

// A message of the all-gather waits for the network; those of the next pass's sums must not wait
// behind it on the links inside. So the two-level all-reduce gathers a pass later than it sums,
// and spreads inside what came over the network another pass later: no message waits for one of
// a later turn, since an op between groups never depends on the gathering inside one. (In a flat
// ring it does, and phases with a barrier keep the order of passes.)
void Binding::choose_lags(const Plan& plan, const BindingLimits& limits) {
  lags_ = limits.device && pass_count_ > 1 && plan.algorithm == Algorithm::kHoRing &&
          plan.collective == Collective::kAllReduce;
}

uint32_t Binding::lag(const PlanOp& op) const {
  if (!lags_ || op.phase == 0) {
    return 0;
  }
  return op.lane == Lane::kInter ? 1 : kLargestLag;
}

// A sum that a NIC sends must get into host memory. The kernel may write it there, which saves a
// copy; where several ranks of the group add to it, one after the other, each would bring it across
// the bus and back, and it is made on the device and copied once. Sums in fp32 are rounded for the
// wire by the host.
void Binding::choose_scratch(const RankPlan& mine, const Call& call) {
  if (call.device.work == nullptr || call.fp32_sums || whole_ops_) {
    return;
  }
  std::vector<uint32_t> added_inside(chunk_count_.size(), 0);
  for (const PlanOp& op : mine.ops) {
    const bool adds = op.kind == OpKind::kRecvReduce && op.dst == Space::kScratch;
    added_inside[op.chunks.front().at()] += adds && op.lane == Lane::kIntra ? 1 : 0;
  }
  scratch_on_device_.assign(chunk_count_.size(), true);
  for (const PlanOp& op : mine.ops) {
    if (op.kind == OpKind::kSend && op.src == Space::kScratch && op.lane == Lane::kInter) {
      const size_t chunk = op.chunks.front().at();
      scratch_on_device_[chunk] = added_inside[chunk] > 1;
    }
  }
}

void Binding::bind_scratch(const RankPlan& mine) {
  scratch_begin_.assign(chunk_count_.size(), kUnplaced);
  for (const PlanOp& op : mine.ops) {
    if (op.dst != Space::kScratch || op.kind == OpKind::kSend) {
      continue;
    }
    for (const ChunkIndex chunk : op.chunks) {
      uint64_t& begin = scratch_begin_[chunk.at()];
      if (begin == kUnplaced) {
        uint64_t& used = scratch_on_device(chunk) ? device_scratch_bytes_ : scratch_bytes_;
        begin = used;
        const uint64_t held =
            std::min<uint64_t>(chunk_count_[chunk.at()], uint64_t{pass_pieces_} * piece_count_);
        used += divide_up(held * scratch_element_bytes_, kSlotAlignment) * kSlotAlignment;
      }
    }
  }
}

uint32_t Binding::op_pieces(const PlanOp& op) const {
  if (whole_ops_) {
    return 1;
  }
  return static_cast<uint32_t>(divide_up(chunk_count_[op.chunks.front().at()], piece_count_));
}

Binding::PieceRange Binding::op_pieces_in(const PlanOp& op, uint32_t turn) const {
  const uint32_t pieces = op_pieces(op);
  if (turn < lag(op)) {
    return {0, 0};
  }
  const uint32_t pass = turn - lag(op);
  return {std::min(pieces, pass * pass_pieces_), std::min(pieces, (pass + 1) * pass_pieces_)};
}

uint64_t Binding::piece_elements(ChunkIndex chunk, uint32_t piece) const {
  const uint64_t begin = piece * piece_count_;
  return std::min(piece_count_,
                  chunk_count_[chunk.at()] - std::min(begin, chunk_count_[chunk.at()]));
}

std::byte* Binding::address(Space space, ChunkIndex chunk, uint32_t piece) const {
  const uint64_t in_chunk = piece * piece_count_;
  switch (space) {
    case Space::kInput:
      return input_ + (input_begin_[chunk.at()] + in_chunk) * element_bytes_;
    case Space::kOutput:
      return output_ + (output_begin_[chunk.at()] + in_chunk) * element_bytes_;
    case Space::kScratch:
      break;
  }
  const uint64_t in_pass = (piece % pass_pieces_) * piece_count_;
  std::byte* const scratch = scratch_on_device(chunk) ? device_scratch_ : scratch_;
  return scratch + scratch_begin_[chunk.at()] + in_pass * scratch_element_bytes_;
}

uint64_t Binding::wire_bytes(const PlanOp& op, uint32_t piece) const {
  uint64_t elements = 0;
  for (const ChunkIndex chunk : op.chunks) {
    elements += piece_elements(chunk, piece);
  }
  return elements * element_bytes_;
}

uint64_t Binding::largest_piece_bytes() const {
  return std::min(piece_count_, std::max<uint64_t>(largest_chunk_, 1)) * element_bytes_;
}

}  // namespace ho
