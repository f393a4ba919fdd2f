// All ranks' ops as one numbered list, and how they are tied together: which receive each send
// meets, what runs in order on each link, and one order in which everything can run. Verification,
// printing and cost work on this.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "group/group_map.hpp"
#include "plan/plan.hpp"

namespace ho {

using OpId = uint32_t;  // 0 .. ops of all ranks - 1, rank by rank in list order
inline constexpr OpId kNoOp = std::numeric_limits<OpId>::max();

struct OpGraph {
  const WholePlan* whole = nullptr;
  std::vector<OpId> first;         // of each rank, and the total at the end
  std::vector<uint32_t> rank;      // of each op
  std::vector<OpId> partner;       // the matching send or receive; kNoOp for copies
  std::vector<uint32_t> link;      // equal for ops of one link and direction; copies have their own
  std::vector<uint32_t> position;  // in one order in which all ops can run
  std::vector<OpId> in_order;      // the ops in that order

  [[nodiscard]] size_t size() const { return rank.size(); }
  [[nodiscard]] const PlanOp& op(OpId id) const {
    return whole->ranks[rank[id]].ops[id - first[rank[id]]];
  }
  // The id of op `index` of the same rank as `id`.
  [[nodiscard]] OpId sibling(OpId id, uint32_t index) const { return first[rank[id]] + index; }
};

// Rule 1: every number is in its range, every lane and space fits its op.
[[nodiscard]] Status check_bounds(const WholePlan& whole, const GroupMap& map);
// Rules 2 and 3: pairs the ops of every link and orders all of them; the error names those that do
// not fit or wait for each other. A send counts as done only when its receive has run, so that a
// plan never relies on the network to hold a message. `whole` is within bounds and outlives the
// graph.
[[nodiscard]] Result<OpGraph> connect_ops(const WholePlan& whole);
// Rules 4 and 5.
[[nodiscard]] Status check_chunks(const OpGraph& graph, const GroupMap& map);
// Rule 6.
[[nodiscard]] Status check_bytes(const WholePlan& whole, const GroupMap& map);

// "rank 3 op 17 (recv block 5 from rank 2, inter rail 1, phase 0 step 2)"
[[nodiscard]] std::string op_text(const WholePlan& whole, uint32_t rank, size_t index);
[[nodiscard]] std::string chunk_text(const Plan& plan, ChunkIndex chunk);
// The error of a broken rule: kInternal, "plan <collective> <algorithm>: <rule>: <message>".
[[nodiscard]] Status broken_plan(const Plan& plan, std::string_view rule, std::string message);

}  // namespace ho
