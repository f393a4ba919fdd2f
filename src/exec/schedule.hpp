// A rank's plan laid out for execution: one queue per link and direction, and what guards the use
// of scratch slots. Made once per plan and shared by all runs of it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "plan/plan.hpp"
#include "transport/transport.hpp"

namespace ho {

// The link an op's messages travel on. Owned by a transport that outlives the schedule.
using LinkResolver = std::function<Result<Link*>(GlobalRank peer, Lane lane, RailIndex rail)>;

struct QueueLayout {
  Link* link = nullptr;  // null for the queue of local copies
  bool over_network = false;
  bool sends = false;
  Lane lane = Lane::kIntra;
  RailIndex rail;
  GlobalRank peer;
  std::vector<uint32_t> ops;  // in list order
};

struct Schedule {
  BuiltPlan built;
  std::vector<QueueLayout>
      queues;  // inter sends, inter receives, intra sends, intra receives, copies
  // first_write[i]: op i starts a scratch chunk; the ops that read that chunk must be through with
  // the previous pass's piece in the same slot.
  std::vector<std::vector<uint32_t>> readers_before;
  uint32_t phase_count = 1;
  std::array<uint32_t, 2> step_count{};  // by lane, of this rank's ops

  [[nodiscard]] const PlanOp& op(uint32_t index) const { return built.mine.ops[index]; }
};

[[nodiscard]] Result<std::shared_ptr<const Schedule>> make_schedule(BuiltPlan built,
                                                                    const LinkResolver& link_of);

}  // namespace ho
