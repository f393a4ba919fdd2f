// Rule 1 of verify(): nothing here needs more than one op and the shared part of the plan.
#include <optional>

#include "plan/op_graph.hpp"

namespace ho {
namespace {

class BoundsCheck {
 public:
  BoundsCheck(const WholePlan& whole, const GroupMap& map) : whole_(whole), map_(map) {}

  Status run();

 private:
  [[nodiscard]] Status broken(std::string message) const {
    return broken_plan(whole_.plan, "bounds", std::move(message));
  }
  [[nodiscard]] Status shared_part() const;
  [[nodiscard]] Status chunks_tile() const;
  // A chunk's own numbers, and that it stands in the order of the blocks.
  [[nodiscard]] Status chunk_in_place(uint32_t index) const;
  // What is wrong with an op, if anything.
  [[nodiscard]] std::optional<std::string> wrong(uint32_t rank, size_t index);
  [[nodiscard]] std::optional<std::string> wrong_peer(uint32_t rank, const PlanOp& op) const;
  [[nodiscard]] std::optional<std::string> wrong_spaces(uint32_t rank, const PlanOp& op) const;
  [[nodiscard]] std::optional<std::string> wrong_deps(uint32_t rank, size_t index) const;
  // Whether `rank` has this space for that block at all.
  [[nodiscard]] bool has_space(uint32_t rank, Space space, uint32_t block) const;

  const WholePlan& whole_;
  const GroupMap& map_;
  std::vector<uint64_t> seen_;  // by chunk: the last op that named it, counted from 1
  uint64_t ops_ = 0;
};

Status BoundsCheck::run() {
  HORING_TRY(shared_part());
  HORING_TRY(chunks_tile());
  seen_.assign(whole_.plan.chunks.size(), 0);
  for (uint32_t rank = 0; rank < whole_.ranks.size(); ++rank) {
    for (size_t index = 0; index < whole_.ranks[rank].ops.size(); ++index) {
      if (const auto problem = wrong(rank, index)) {
        return broken(op_text(whole_, rank, index) + ": " + *problem);
      }
    }
  }
  return {};
}

Status BoundsCheck::shared_part() const {
  const Plan& plan = whole_.plan;
  const uint32_t world = map_.world_size();
  if (whole_.ranks.size() != world) {
    return broken("ops for " + std::to_string(whole_.ranks.size()) + " ranks in a world of " +
                  std::to_string(world));
  }
  if (plan.root.at() >= world) {
    return broken("root " + std::to_string(plan.root.value()) + " is no rank");
  }
  const std::optional<uint64_t> blocks =
      plan.block_roles.empty() ? blocks_of(plan.collective, world) : std::nullopt;
  if (plan.block_count == 0 || blocks.value_or(plan.block_count) != plan.block_count) {
    return broken(std::to_string(plan.block_count) + " blocks in a world of " +
                  std::to_string(world));
  }
  if (!plan.block_roles.empty() && plan.block_roles.size() != plan.block_count) {
    return broken(std::to_string(plan.block_roles.size()) + " roles of " +
                  std::to_string(plan.block_count) + " blocks");
  }
  for (const BlockRole& role : plan.block_roles) {
    for (const std::optional<GlobalRank>& end : {role.from, role.to}) {
      if (end && end->at() >= world) {
        return broken("a block comes from or goes to " + std::to_string(end->value()) +
                      ", which is no rank");
      }
    }
  }
  return {};
}

Status BoundsCheck::chunk_in_place(uint32_t index) const {
  const Plan& plan = whole_.plan;
  const Chunk& chunk = plan.chunks[index];
  const std::string name = "chunk " + std::to_string(index);
  if (chunk.block >= plan.block_count) {
    return broken(name + " is of block " + std::to_string(chunk.block) + " of " +
                  std::to_string(plan.block_count));
  }
  // A tiled block has as many chunks as parts, so this bounds the memory of a wild plan.
  if (chunk.part >= chunk.parts || chunk.parts > plan.chunks.size()) {
    return broken(name + " is part " + std::to_string(chunk.part) + " of " +
                  std::to_string(chunk.parts));
  }
  if (index > 0 && plan.chunks[index - 1].block > chunk.block) {
    return broken(name + " of block " + std::to_string(chunk.block) +
                  " stands behind one of a later block");
  }
  return {};
}

Status BoundsCheck::chunks_tile() const {
  const Plan& plan = whole_.plan;
  if (plan.block_count > plan.chunks.size()) {
    return broken(std::to_string(plan.block_count) + " blocks but only " +
                  std::to_string(plan.chunks.size()) + " chunks");
  }
  std::vector<std::vector<bool>> parts(plan.block_count);
  for (uint32_t c = 0; c < plan.chunks.size(); ++c) {
    const Chunk& chunk = plan.chunks[c];
    HORING_TRY(chunk_in_place(c));
    auto& seen = parts[chunk.block];
    if (seen.empty()) {
      seen.assign(chunk.parts, false);
    }
    if (seen.size() != chunk.parts || seen[chunk.part]) {
      return broken("chunk " + std::to_string(c) + " does not tile block " +
                    std::to_string(chunk.block) + " together with the others");
    }
    seen[chunk.part] = true;
  }
  for (uint32_t block = 0; block < plan.block_count; ++block) {
    for (size_t part = 0; part < parts[block].size(); ++part) {
      if (!parts[block][part]) {
        return broken("block " + std::to_string(block) + " lacks part " + std::to_string(part));
      }
    }
    if (parts[block].empty()) {
      return broken("block " + std::to_string(block) + " has no chunk");
    }
  }
  return {};
}

std::optional<std::string> BoundsCheck::wrong(uint32_t rank, size_t index) {
  const Plan& plan = whole_.plan;
  const PlanOp& op = whole_.ranks[rank].ops[index];
  ++ops_;
  if (op.kind > OpKind::kCopy || op.src > Space::kScratch || op.dst > Space::kScratch ||
      op.lane > Lane::kInter) {
    return "an unknown kind, lane or space";
  }
  if (op.chunks.empty() || (op.chunks.size() > 1 && !plan.whole_ops)) {
    return "an op has one chunk unless the plan's ops are whole";
  }
  for (const ChunkIndex chunk : op.chunks) {
    if (chunk.at() >= plan.chunks.size()) {
      return "chunk " + std::to_string(chunk.value()) + " of " + std::to_string(plan.chunks.size());
    }
    if (seen_[chunk.at()] == ops_) {
      return chunk_text(plan, chunk) + " is named twice";
    }
    seen_[chunk.at()] = ops_;
  }
  if (op.phase >= plan.phase_names.size()) {
    return "phase " + std::to_string(op.phase) + " of " + std::to_string(plan.phase_names.size());
  }
  if (op.kind != OpKind::kCopy) {
    if (auto problem = wrong_peer(rank, op)) {
      return problem;
    }
  }
  if (auto problem = wrong_spaces(rank, op)) {
    return problem;
  }
  return wrong_deps(rank, index);
}

std::optional<std::string> BoundsCheck::wrong_peer(uint32_t rank, const PlanOp& op) const {
  if (op.peer.at() >= map_.world_size() || op.peer.value() == rank) {
    return "its peer is no other rank";
  }
  const bool leaves = map_.group_of(op.peer) != map_.group_of(GlobalRank(rank));
  if (leaves != (op.lane == Lane::kInter)) {
    return leaves ? "the intra lane does not reach another group"
                  : "the inter lane is for other groups";
  }
  if (op.rail.value() >= (leaves ? map_.rail_count() : 1)) {
    return "there is no such rail";
  }
  if (op.connection >= whole_.plan.connection_count) {
    return "there is no such connection";
  }
  return std::nullopt;
}

bool BoundsCheck::has_space(uint32_t rank, Space space, uint32_t block) const {
  const BlockRole role = role_of(whole_.plan, block, map_.world_size());
  switch (space) {
    case Space::kInput:
      return role.in_input(GlobalRank(rank));
    case Space::kOutput:
      return role.in_output(GlobalRank(rank));
    case Space::kScratch:
      break;
  }
  return true;
}

std::optional<std::string> BoundsCheck::wrong_spaces(uint32_t rank, const PlanOp& op) const {
  const bool reads = op.kind != OpKind::kRecv;
  const bool writes = op.kind != OpKind::kSend;
  if (op.final_sum && op.kind != OpKind::kRecvReduce) {
    return "only a recv_reduce completes a sum";
  }
  if (writes && op.dst == Space::kInput) {
    return "it writes the caller's input";
  }
  if (op.kind == OpKind::kCopy && op.src == op.dst) {
    return "it copies a place onto itself";
  }
  for (const ChunkIndex chunk : op.chunks) {
    const uint32_t block = whole_.plan.chunks[chunk.at()].block;
    if (op.kind == OpKind::kRecvReduce &&
        !role_of(whole_.plan, block, map_.world_size()).is_sum()) {
      return "this block is no sum";
    }
    for (const auto& [used, space] : {std::pair(reads, op.src), std::pair(writes, op.dst)}) {
      if (used && !has_space(rank, space, block)) {
        return "this rank has no " + std::string(to_string(space)) + " for " +
               chunk_text(whole_.plan, chunk);
      }
    }
  }
  return std::nullopt;
}

std::optional<std::string> BoundsCheck::wrong_deps(uint32_t rank, size_t index) const {
  const auto& ops = whole_.ranks[rank].ops;
  for (const uint32_t dep : ops[index].deps) {
    if (dep >= index) {
      return "it waits for op " + std::to_string(dep) + ", which is not earlier";
    }
    if (!whole_.plan.whole_ops && ops[dep].chunks != ops[index].chunks) {
      return "it waits for op " + std::to_string(dep) + ", which is on another chunk";
    }
  }
  return std::nullopt;
}

}  // namespace

Status check_bounds(const WholePlan& whole, const GroupMap& map) {
  return BoundsCheck(whole, map).run();
}

}  // namespace ho
