#include "core/rail/window.hpp"

#include <algorithm>

namespace ho::plugin::rail {
namespace {

// Links between the first member of an owner's reduction or broadcast and `self`.
uint32_t hop_of(FlowKind kind, uint32_t owner, uint32_t self, uint32_t members) {
  const uint32_t begin = kind == FlowKind::kReduction ? owner + 1 : owner;
  return (self + 2 * members - begin) % members;
}

bool sends(uint32_t hop, uint32_t members) {
  return hop + 1 < members;
}

bool receives(uint32_t hop) {
  return hop > 0;
}

}  // namespace

Window Window::all_reduce(uint32_t members, uint64_t count, uint64_t element_bytes) {
  Window window;
  window.kind = WindowKind::kAllReduce;
  window.members = members;
  window.byte_count = count * element_bytes;
  window.element_bytes = element_bytes;
  return window;
}

bool Window::has(FlowKind flow) const {
  switch (kind) {
    case WindowKind::kAllReduce:
      return flow == FlowKind::kReduction || !exchanges();
    case WindowKind::kAllGather:
      return flow == FlowKind::kBroadcast;
    case WindowKind::kReduceScatter:
      return flow == FlowKind::kReduction;
  }
  return false;
}

Segment Window::segment(uint32_t owner) const {
  if (exchanges()) {
    return {0, byte_count};
  }
  if (kind == WindowKind::kAllReduce) {
    const uint64_t count = byte_count / element_bytes;
    const uint64_t each = count / members;
    const uint64_t more = count % members;  // the first `more` members have one element more
    const uint64_t begin = each * owner + std::min<uint64_t>(owner, more);
    return {begin * element_bytes, (each + (owner < more ? 1 : 0)) * element_bytes};
  }
  const uint64_t block = block_bytes * owner;
  const uint64_t begin = std::max(block, offset);
  const uint64_t end = std::min(block + block_bytes, offset + byte_count);
  return begin < end ? Segment{begin - offset, end - begin} : Segment{};
}

uint64_t piece_bytes_of(const Window& window, uint64_t flow_bytes, uint64_t wanted) {
  if (wanted != 0 || flow_bytes == 0) {
    return wanted != 0 ? wanted : kMinPieceBytes;
  }
  if (window.exchanges()) {
    return kMaxPieceBytes;
  }
  const uint64_t flows = (window.byte_count - 1) / flow_bytes + 1;
  const uint64_t least_pieces = flow_bytes > 2 * kMinPieceBytes ? 2 : 1;
  const uint64_t pieces = std::max<uint64_t>(least_pieces, window.members / flows);
  uint64_t piece = kMinPieceBytes;
  while (piece < kMaxPieceBytes && flow_bytes / pieces >= 2 * piece) {
    piece *= 2;
  }
  return piece;
}

uint64_t piece_count(const Window& window, uint64_t flow_bytes, uint64_t wanted) {
  const uint64_t piece = piece_bytes_of(window, flow_bytes, wanted);
  return flow_bytes / piece + (flow_bytes % piece == 0 ? 0 : 1);
}

Walk::Walk(Flow flow, Side side, uint32_t self, uint64_t wanted_piece_bytes)
    : flow_(flow),
      side_(side),
      self_(self),
      wanted_piece_bytes_(wanted_piece_bytes),
      position_{0, flow.index, 0} {}

std::optional<Message> Walk::next_in(const Window& window) {
  for (; position_.owner < window.members; position_.owner += kOwnerFlows, position_.piece = 0) {
    const uint32_t hop = hop_of(flow_.kind, position_.owner, self_, window.members);
    const bool takes_part = side_ == Side::kSends ? sends(hop, window.members) : receives(hop);
    const Segment segment = window.segment(position_.owner);
    const uint64_t piece = piece_bytes_of(window, segment.byte_count, wanted_piece_bytes_);
    const uint64_t done = position_.piece * piece;
    if (takes_part && done < segment.byte_count) {
      return Message{
          position_, {segment.offset + done, std::min(piece, segment.byte_count - done)}, hop};
    }
  }
  return std::nullopt;
}

std::optional<Message> Walk::next(const EnteredWindows& entered) {
  if (position_.operation < entered.first()) {
    position_ = {entered.first(), flow_.index, 0};
  }
  for (; position_.operation < entered.end();
       position_ = {position_.operation + 1, flow_.index, 0}) {
    const Window& window = entered.window(position_.operation);
    if (!window.has(flow_.kind)) {
      continue;
    }
    if (const auto message = next_in(window)) {
      return message;
    }
  }
  return std::nullopt;
}

uint64_t message_count(const Window& window, uint32_t self, uint64_t wanted_piece_bytes) {
  uint64_t count = 0;
  for (const FlowKind kind : {FlowKind::kReduction, FlowKind::kBroadcast}) {
    for (uint32_t owner = 0; window.has(kind) && owner < window.members; ++owner) {
      const uint32_t hop = hop_of(kind, owner, self, window.members);
      const uint64_t times = (sends(hop, window.members) ? 1U : 0U) + (receives(hop) ? 1U : 0U);
      count += times * piece_count(window, window.segment(owner).byte_count, wanted_piece_bytes);
    }
  }
  return count;
}

}  // namespace ho::plugin::rail
