// The smallest schedule: one byte to rank 1, or from it.
#pragma once

#include <memory>
#include <utility>

#include "exec/engine.hpp"

namespace ho::test {

inline std::shared_ptr<const Schedule> one_byte(Engine& engine, OpKind kind) {
  BuiltPlan built;
  built.plan.collective = Collective::kBroadcast;
  built.plan.block_count = 1;
  built.plan.chunks = {Chunk{}};
  PlanOp op;
  op.kind = kind;
  op.peer = GlobalRank(1);
  op.chunks = {ChunkIndex(0)};
  built.mine.ops.push_back(std::move(op));
  auto schedule = engine.exclusively([&](ShmTransport& shm, Transport* /*network*/) {
    return make_schedule(std::move(built), [&](GlobalRank peer, Lane /*lane*/, RailIndex rail) {
      return shm.link({peer, rail, 0, 0});
    });
  });
  return *std::move(schedule);
}

}  // namespace ho::test
