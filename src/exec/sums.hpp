// Adding an incoming piece to what is there, in the call's own type or, with fp32_sums, in fp32.
//
// With fp32_sums scratch holds fp32 and the wire and the caller's buffers 16-bit values. A value is
// rounded when its partial sum goes on the wire and when it reaches the output: once per hop
// between ranks that carry partial sums, plus once at the end.
#pragma once

#include <span>
#include <vector>

#include "exec/call.hpp"
#include "plan/plan.hpp"
#include "transport/transport.hpp"

namespace ho {

struct Addends {
  std::byte* dst;
  const std::byte* src;
  const std::byte* incoming;
  uint64_t elements;
};

// dst = src (+) incoming; averages are divided if op.final_sum is set.
void add(const Call& call, const PlanOp& op, const Addends& addends);

// Rounds `elements` fp32 sums to the call's 16-bit type, at the same address.
void narrow_in_place(const Call& call, std::byte* sums, uint64_t elements);

// The memory of many chunks as few parts: neighbours in memory are joined.
template <typename Part, typename Locate>
std::vector<Part> joined_parts(const std::vector<ChunkIndex>& chunks, const Locate& locate) {
  std::vector<Part> parts;
  for (const ChunkIndex chunk : chunks) {
    const Part part = locate(chunk);
    if (part.empty()) {
      continue;
    }
    if (!parts.empty() && parts.back().data() + parts.back().size() == part.data()) {
      parts.back() = Part(parts.back().data(), parts.back().size() + part.size());
    } else {
      parts.push_back(part);
    }
  }
  return parts;
}

}  // namespace ho
