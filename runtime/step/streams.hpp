// A step plan on the streams of a device: on which stream each action is given, which events order
// the streams, and the one order in which a host gives it all. Pure.
//
// Streams. Each track of the plan is a stream: computation is the framework's own; gathers,
// reductions and syncs have one each. A stream carries out what it is given one after the other. An
// action is all that the runner does for it there: packing, the collective, unpacking, adding up;
// of a computation also zeroing its gradients and adding them to this rank's sums; of kAgree the
// norm before its sum and what it decides after it (the optimizer's factor, whether the step is
// taken), which stays in device memory; of kUpdate the optimizer and zeroing the sums.
//
// Events. An action's `waits` are events that its stream waits for before it; its own `event` is
// recorded on its stream after it. Order on one stream needs no event. Nor does what an earlier
// wait of the stream stands for: it came after the other. Events are data's alone: a buffer that is
// written by one action and used by another. Where the plan orders two tracks' actions only since
// one communicator takes them (all-gathers of sync-p and of the next step), streams do not: a
// communicator belongs to one track.
//
// Launches. NCCL's kernels hold their stream until those of all ranks have begun, and a device
// begins collectives of all its communicators in the order in which its host launched them. Were
// that order another one on another rank, they could wait for each other for ever. So `launches` is
// one order of all actions of a step, the same on all ranks, and every host follows it. It never
// waits for the device: whatever an action waits for was launched before it.
//
// A hook launches what comes next:
//  - begin (before_forward, before_backward): all launches up to its computation. Then the
//  framework's stream waits for the computation's `waits`, and the framework launches its work.
//  - end (after_...): records the computation's event; then all launches up to the next computation
//  or kAgree, since that one takes what the framework may yet change.
//  - step(): all that is left of the step. What the framework has not called yet (kAgree, kUpdate)
//  is the runner's to do, on the streams of their tracks.
// So the first launches of a step come at its first hook: states may be read and changed before it.
//
// A collective that is launched cannot begin before those launched before it, whatever their
// streams. So the order is that in which they would begin in the critical path, by the seconds that
// each is expected to take: then it holds none of them up. It must be the same on all ranks, so
// these seconds must be; where nothing is known they are assumed from the units' elements alone.
// Each is launched as early as its place among the others allows: a gather for slot i as soon as
// slot i - 1 - prefetch has given its buffer back, a bucket's reduction when the last of its units
// has ended its backward, what is later in the order never before what is earlier.
//
// Sync-p of a unit is launched by step() where the next step gathers nothing. Else some of it may
// be launched by the next step's hooks, among its gathers (Launch::previous), since those launched
// after all of it would wait for nearly all of it.
//
// A device that does not begin collectives in the order of their launches (NCCL before 2.26, or
// without NCCL_LAUNCH_ORDER_IMPLICIT) has to carry them out one at a time: then each collective's
// stream also waits for the end of the one launched before it.
//
// Whatever leaves the order of launches, on all ranks at the same place:
//  - Before anything between steps that uses states (load, save, read, compare, restore, change of
//  strategy, synchronize, destroy): launch what is left of the last step's sync-p, in its order;
//  when the next step comes to these launches, they are skipped.
//  - Then join: every stream records an event and waits for those of all others. After a join all
//  that was launched comes before all that will be. The same once more where what was done between
//  steps used another stream than all others wait for.
//  - A step that ends early, or is dropped, after k micro-batches: what its hooks have launched
//  stays; join; actions of forward and backward of micro-batches from k on are left out; the other
//  launches of the step follow in order (none where it is dropped). Nothing is recorded for what is
//  left out, and waits for it are as they are: an older record, which the join covers.
//  - After a failure, or another plan: no event counts as recorded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "step/action_cost.hpp"
#include "step/step_plan.hpp"

namespace paro {

struct StreamAction {
  // Actions on other streams, each of which has an event: its latest record when this one is
  // launched. Nothing to wait for where there is no record yet, as in a first step.
  std::vector<ActionId> waits;
  std::optional<uint32_t> event;  // that is recorded after it; below StepStreams::event_count
};

struct Launch {
  ActionId action;
  bool previous = false;  // of the step before; left out in the first step and after a restart
  friend bool operator==(const Launch&, const Launch&) = default;
};

struct StepStreams {
  std::vector<StreamAction> actions;  // by action of the plan
  std::vector<Launch> launches;       // each action once
  uint32_t event_count = 0;
};

// Of a plan that verify() accepts. `costs` by action, the same on all ranks.
[[nodiscard]] StepStreams streams_of(const StepPlan& plan, const std::vector<ActionCost>& costs);
// With assumed_costs().
[[nodiscard]] StepStreams streams_of(const StepPlan& plan);

// Proves streams right, or names the actions: in steps that follow one another
//  - every action is launched once, those of a track in the plan's order;
//  - no two actions that may run at the same time use a buffer that one of them writes, and those
//  that use one buffer run in the plan's order, by the streams and the waits alone.
// That holds, too, when a step ends early or is dropped, and when states are used between steps.
[[nodiscard]] ho::Status verify_streams(const StepPlan& plan, const StepStreams& streams);
// Proves that ranks which have these streams, by rank, launch all collectives in one order, or
// names the first two that differ.
[[nodiscard]] ho::Status verify_launches(const StepPlan& plan,
                                         const std::vector<StepStreams>& by_rank);

// One line per launch: its stream, its action, what it waits for, its event.
[[nodiscard]] std::string print(const StepPlan& plan, const StepStreams& streams);

}  // namespace paro
