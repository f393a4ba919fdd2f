// The smallest collective: one byte to rank 1, or from it.
#pragma once

#include <memory>
#include <utility>

#include "exec/call.hpp"
#include "exec/schedule.hpp"
#include "transport/transport.hpp"

namespace ho::test {

inline std::shared_ptr<const Schedule> one_byte(Link& link, OpKind kind) {
  BuiltPlan built;
  built.plan.collective = Collective::kBroadcast;
  built.plan.block_count = 1;
  built.plan.chunks = {Chunk{}};
  PlanOp op;
  op.kind = kind;
  op.peer = GlobalRank(1);
  op.chunks = {ChunkIndex(0)};
  built.mine.ops.push_back(std::move(op));
  auto schedule =
      make_schedule(std::move(built),
                    [&](GlobalRank /*peer*/, Lane /*lane*/, RailIndex /*rail*/) -> Result<Link*> {
                      return &link;
                    });
  return *std::move(schedule);
}

// Of that schedule. `byte` is read or written.
inline Call one_byte_call(std::byte& byte) {
  Call call;
  call.collective = Collective::kBroadcast;
  call.dtype = DType::kUint8;
  call.input = &byte;
  call.output = &byte;
  call.count = 1;
  call.block_counts = BlockCounts(1);
  call.world_size = 2;
  call.timeout = std::chrono::hours(1);
  return call;
}

}  // namespace ho::test
