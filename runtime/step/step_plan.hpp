// What one training step does, and in which order. Pure.
//
// A plan is a list of actions, the same on every rank. Four tracks carry them out at once:
// computation, gathers, reductions, and the gathers of sync-p, which the next step's gathers need
// not wait for. Each starts its actions in the order of the list; the
// collectives of a track may be under way together, computations never are. An action starts when
// the actions that it waits for have ended: in this step (`after`) and in the one before
// (`after_previous`). Two tracks are at different places on different ranks, but ranks must start
// collectives of one communicator in one order. So where sync-p and the next step's gathers have
// one communicator (a domain is one, or a set of them), the gathers do wait.
//
// Units are what a framework computes and gathers as one piece: a layer, some layers. A step runs s
// micro-batches, each forward over units 0 .. U-1 and backward over U-1 .. 0. That makes compute
// slots 0 .. 2 U s - 1. Parameters that are split are gathered for each slot into one of
// `prefetch` + 1 buffers, so the gather for slot i waits for slot i - 1 - prefetch to give its
// buffer back. Gradients that are split are reduced from one of kGradientBuffers buffers, so a
// backward waits for the reduction kGradientBuffers before it. The first of two gathers, that of
// the forward pass, is not kept for the backward pass.
//
// Small units that follow one another form a bucket: their gradients share each of their
// collectives, which start when the last of them has ended its backward. A message has each rank's
// elements of all units together, so it is put together in one of kPackBuffers buffers; a merged
// reduction waits for the one kPackBuffers before it.
//
// A unit may share the parameters of one before it. What is gathered for it and reduced after it is
// then that one's; its gradients are a bucket of their own, added to the same sums. Backward
// reaches the shared unit last, so sync-g follows that one's own reduction.
//
// After the last micro-batch: sync-g brings each unit's gradients from their scope to the
// optimizer's as soon as its last backward has ended; the ranks agree on the gradients' norm and on
// whether all of it is finite; the optimizer updates its shards; sync-p brings parameters back to
// their scope, and need not have ended before the next step's first use of that unit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/index.hpp"
#include "base/status.hpp"
#include "layout/unit_layout.hpp"
#include "strategy/strategy.hpp"

namespace paro {

enum class Act : uint8_t {
  kForward,
  kBackward,
  kGather,         // each member of a domain's set gets what the members own at `from`
  kReduceScatter,  // sums over a domain's set, each member keeping what it owns at `to`
  kAllReduce,      // sums over a domain's set, `from` == `to`
  kAgree,          // the norm and the flags, over the world
  kUpdate,         // the optimizer, on this rank's shard
};

// Who takes part: the ranks of one group, the owners of one segment, or all ranks.
enum class Domain : uint8_t { kIntra, kInter, kWorld };

enum class Content : uint8_t {
  kParameters,  // trained
  kFrozen,      // parameters that are not trained
  kGradients,
  kNorm,
};

enum class Phase : uint8_t { kForward, kBackward, kSyncG, kUpdate, kSyncP };

enum class Track : uint8_t { kCompute, kGathers, kReductions, kSyncs };
inline constexpr size_t kTrackCount = 4;

using ActionId = ho::Index<struct ActionIdSpace>;  // of StepPlan::actions

struct Action {
  Act act = Act::kForward;
  Phase phase = Phase::kForward;
  Track track = Track::kCompute;
  // Of computations the unit that computes, of all others the one whose state it is (home_of()).
  // Unused by kAgree.
  uint32_t unit = 0;
  uint32_t micro_batch = 0;
  std::vector<uint32_t> merged{};  // of reductions: the bucket's units after `unit`
  bool shared = false;             // of gathers and reductions: for a unit that shares `unit`'s
  // Of collectives:
  Domain domain = Domain::kWorld;
  Content content = Content::kParameters;
  Scope from = Scope::kReplicated;
  Scope to = Scope::kReplicated;
  std::vector<ActionId> after{};
  std::vector<ActionId> after_previous{};
};

struct StepShape {
  Strategy strategy;
  Scope frozen = Scope::kReplicated;  // of parameters that are not trained
  std::vector<UnitShape> units;
  uint32_t micro_batches = 1;
  uint32_t prefetch = 1;
  uint64_t bucket_elements = 0;  // at most, of several units' gradients together; 0: no buckets
};

inline constexpr uint32_t kGradientBuffers = 2;
inline constexpr uint32_t kPackBuffers = 2;

struct StepPlan {
  StepShape shape;
  std::vector<Action> actions;
};

// At least one unit and one micro-batch; a strategy that check() accepts; at most 2^20 actions.
[[nodiscard]] ho::Result<StepPlan> build_step_plan(const StepShape& shape);

[[nodiscard]] bool is_collective(Act act);
// Of several units' gradients.
[[nodiscard]] bool is_merged(const Action& action);
// `unit`, then those merged with it.
[[nodiscard]] std::vector<uint32_t> units_of(const Action& action);
// What every rank of the world has a part of its own in.
[[nodiscard]] bool moves_parts_of_world(const Action& action);
[[nodiscard]] std::string_view to_string(Act act);
[[nodiscard]] std::string_view to_string(Domain domain);
[[nodiscard]] std::string_view to_string(Content content);
[[nodiscard]] std::string_view to_string(Phase phase);
[[nodiscard]] std::string_view to_string(Track track);

// "reduce_scatter gradients N->I intra, unit 3 (head), backward of micro-batch 1"; a bucket's are
// "units 3,2,1 (head to embedding)"
[[nodiscard]] std::string to_string(const StepPlan& plan, const Action& action);
// One line per action, with what it waits for.
[[nodiscard]] std::string print(const StepPlan& plan);

}  // namespace paro
