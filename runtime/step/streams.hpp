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
// Prefetch: the gather for slot i is launched when slot i - 1 - prefetch has ended, as soon as it
// has a buffer. Buckets: a bucket's reduction is launched when the last of its units has ended its
// backward. Both as in the plan, since each launch comes right after the last computation that it
// waits for. Of those that wait for the same one, the one that a computation needs first is first.
// Sync-p alone is launched later than it could be where the next step gathers: a collective cannot
// begin before those launched before it, so a gather launched after all of sync-p would wait for
// nearly all of it. Instead each unit's sync-p is launched one gather ahead of its own. Then a
// part of it is launched by the next step's hooks (Launch::previous).
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
};

struct StepStreams {
  std::vector<StreamAction> actions;  // by action of the plan
  std::vector<Launch> launches;       // each action once
  uint32_t event_count = 0;
};

struct StreamOptions {
  // Each collective waits for the one launched before it. For a device that does not begin
  // collectives in the order of their launches: NCCL before 2.26, or without
  // NCCL_LAUNCH_ORDER_IMPLICIT.
  bool one_at_a_time = false;
};

// Of a plan that verify() accepts.
[[nodiscard]] StepStreams streams_of(const StepPlan& plan, const StreamOptions& options = {});

// Proves streams right, or names the actions: in steps that follow one another
//  - every action is launched once, those of a track in the plan's order, each after all that it
//  waits for, and what it waits for is that event's latest record;
//  - no two actions that may run at the same time use a buffer that one of them writes, and those
//  that use one buffer run in the plan's order;
//  - the computations are launched as the framework calls its hooks.
// That the launches are the same on all ranks follows from their being the plan's alone: verify()
// proves that all ranks take part in each collective that they launch.
[[nodiscard]] ho::Status verify_streams(const StepPlan& plan, const StepStreams& streams);

// One line per launch: its stream, its action, what it waits for, its event.
[[nodiscard]] std::string print(const StepPlan& plan, const StepStreams& streams);

}  // namespace paro
