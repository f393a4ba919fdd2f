// What a plan costs and what it overlaps, for people: derived from its ops, never from its name.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "group/group_map.hpp"
#include "plan/plan.hpp"
#include "plan/traffic.hpp"

namespace ho {

struct PhaseSteps {
  uint32_t intra = 0;
  uint32_t inter = 0;
};

// What one rank exchanges with one peer.
struct LinkShare {
  GlobalRank peer;
  Lane lane = Lane::kIntra;
  RailIndex rail;
  Flow units;
  Flow messages;
};

// How many transfers of an intra step are ordered with none of an inter step's messages.
struct IntraShare {
  uint16_t phase = 0;
  uint32_t step = 0;
  uint32_t free = 0;
  uint32_t total = 0;
};
struct StepOverlap {
  uint16_t phase = 0;
  uint32_t step = 0;
  std::vector<IntraShare> intra;  // those with free > 0
};

struct PlanSummary {
  Traffic traffic;
  std::vector<PhaseSteps> steps;  // by phase
  // The longest row of inter messages in which each waits for the one before: because it needs what
  // that brought (hops), or also because it uses the same link (messages).
  uint32_t inter_hops = 0;
  uint32_t inter_messages = 0;
  // Of all ranks, the most that lies in scratch, counting every chunk that ever does.
  uint64_t scratch = 0;
  std::vector<LinkShare> links;       // of the rank
  std::vector<StepOverlap> overlaps;  // of the inter steps of the rank's group, inside that group
};

// `rank` is the one that is shown in detail. Fails where the plan does not fit together.
[[nodiscard]] Result<PlanSummary> summarize(const WholePlan& whole,
                                            const GroupMap& map,
                                            GlobalRank rank);

}  // namespace ho
