// Carries out a step plan on sharded states, driven by the hooks of a framework.
//
// A framework computes unit by unit; the runner has each unit's parameters there when the unit's
// computation begins and takes its gradients when it ends:
//
//   for each micro-batch:  before_forward(u) .. after_forward(u)    u = 0 .. U-1
//                          before_backward(u) .. after_backward(u)  u = U-1 .. 0
//   step()
//
// Collectives start at the first hook at which what they wait for has ended, in the plan's order on
// each track; the library moves them while the framework computes. A hook blocks only for what
// its own unit needs. Gradients are summed, never averaged on the way: the optimizer divides once,
// by ranks, micro-batches and loss scale together.
//
// Errors: the first one breaks the runner. It names unit, state, operation, rank and step; every
// call after it returns it again. Until step() has told that the ranks agree, masters and optimizer
// state are as they were before the step; rejoin() goes on from there with a new communicator.
//
// Threads: one at a time, always the same order of calls on all ranks. abort() from any thread.
//
// Its parts: Scheduler (which action may start), StepBuffers and collectives.hpp (what it moves),
// Updater, states.hpp (what moves between steps), all on its Shards. What is here joins them.
#pragma once

#include <horing.h>

#include <array>
#include <chrono>
#include <deque>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "run/budget.hpp"
#include "run/loads.hpp"
#include "run/not_finite.hpp"
#include "run/runner_config.hpp"
#include "run/scheduler.hpp"
#include "run/shards.hpp"
#include "run/states.hpp"
#include "run/step_buffers.hpp"
#include "run/step_ends.hpp"
#include "run/step_report.hpp"
#include "run/step_sums.hpp"
#include "run/updater.hpp"

namespace paro {

// Whole parameters of a unit, padding not counted; nullptr for none. Valid until the hook's
// counterpart. Read only.
struct UnitView {
  const void* trained = nullptr;
  const void* frozen = nullptr;
  // Backward only: add the micro-batch's gradients of the loss times loss_scale() here.
  void* gradients = nullptr;
};

class StepRunner {
 public:
  // Collective over `comm`, which is borrowed for the call; `groups` over its ranks. All ranks pass
  // the same config (checked). All ranks get a runner, or an error, be it another rank's. Masters
  // and parameters are zero until load(). `timeout_ms`, here and below: how long ranks wait for
  // the last one that comes; 0: the communicator's timeout.
  [[nodiscard]] static ho::Result<std::unique_ptr<StepRunner>> create(ho_comm* comm,
                                                                      const ho::GroupMap& groups,
                                                                      RunnerConfig config,
                                                                      Memory& memory,
                                                                      uint64_t timeout_ms = 0);
  ~StepRunner();
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  // The unit's values, the same on all ranks, of which this rank takes its shards. Between steps.
  // The next step() compares what the ranks were given, before it updates anything.
  [[nodiscard]] ho::Status load(uint32_t unit,
                                std::span<const float> trained,
                                std::span<const float> frozen);

  [[nodiscard]] ho::Result<UnitView> before_forward(uint32_t unit);
  [[nodiscard]] ho::Status after_forward(uint32_t unit);
  [[nodiscard]] ho::Result<UnitView> before_backward(uint32_t unit);
  [[nodiscard]] ho::Status after_backward(uint32_t unit);
  // Starts what may start by now; never blocks. For long computations of which the calling thread
  // is free: without it collectives that follow one another wait for the next hook.
  [[nodiscard]] ho::Status poll() { return pump(); }
  // Collective: agrees, updates, starts sync-p.
  [[nodiscard]] ho::Result<StepReport> step();
  // Collective, after fewer micro-batches than there are: the step is of those, as if there were no
  // more. All ranks after as many.
  [[nodiscard]] ho::Result<StepReport> step_early();
  // Collective, after any number of micro-batches: their gradients are dropped, and the step begins
  // anew with its first. All ranks after as many. After none it does nothing.
  [[nodiscard]] ho::Status discard();
  // Collective, between steps: steps have so many micro-batches, at most the config's.
  [[nodiscard]] ho::Status set_micro_batches(uint32_t count);
  // Ends what step() started. Collective in effect: the others must have called step() too.
  [[nodiscard]] ho::Status synchronize();

  [[nodiscard]] double loss_scale() const { return updater_.scale().value(); }
  // Whether this rank has something to tell the others, which all learn from the next step().
  void signal(bool has) { signals_ = has; }
  // From the next step() on, which fails on all ranks where the ranks' rates differ.
  void set_learning_rate(double rate);

  // Collective, between steps: whole masters of a unit.
  [[nodiscard]] ho::Status read_masters(uint32_t unit, std::span<float> trained);
  // Collective, between steps: whole frozen parameters of a unit, as load() rounded them.
  [[nodiscard]] ho::Status read_frozen(uint32_t unit, std::span<float> frozen);
  // Collective, between steps: ok if all copies of all states are the same bits.
  [[nodiscard]] ho::Status check_drift();
  // Collective: goes on after an error, over a communicator of the same ranks in the same order.
  // Gradients of the step that failed are dropped. Fails if the ranks have applied different
  // numbers of steps.
  [[nodiscard]] ho::Status rejoin(ho_comm* comm);
  // Between steps, not collective: this rank's share of all states.
  [[nodiscard]] ho::Result<Snapshot> snapshot() const;
  // The same without the units; and these where they lie, for as long as nothing is called that
  // changes states.
  [[nodiscard]] ho::Result<Snapshot> progress() const;
  [[nodiscard]] std::vector<StatePart> parts() const { return parts_of(shards_); }
  // Collective, between steps: all states as they were when the ranks took these snapshots, of a
  // runner with the same units, groups, alignment, rule and parameter type, whatever its strategy.
  // Fails on all ranks, before anything has changed, where a rank has an error instead of a
  // snapshot, or one that does not fit.
  [[nodiscard]] ho::Status restore(const ho::Result<Snapshot>& input, uint64_t timeout_ms = 0);
  // Collective: another communicator of all ranks, numbered as they are.
  // `what` it is for, as the caller knows it.
  [[nodiscard]] ho::Result<OwnedComm> new_communicator(const char* what, uint64_t timeout_ms = 0);
  // Any thread.
  void abort(const char* reason) { shards_.domains->abort(reason); }

  [[nodiscard]] const RunnerConfig& config() const { return shards_.config; }
  [[nodiscard]] const StepPlan& plan() const { return scheduler_.plan(); }
  [[nodiscard]] const std::vector<UnitLayout>& layouts() const { return shards_.layouts; }
  [[nodiscard]] ho::GlobalRank self() const { return shards_.self(); }
  [[nodiscard]] const ho::GroupMap& groups() const { return shards_.domains->groups(); }
  [[nodiscard]] const Ledger& ledger() const { return shards_.ledger; }
  [[nodiscard]] MemoryUse predicted() const { return predicted_use(shards_, plan()); }
  // States of the fullest rank, were they split so.
  [[nodiscard]] ho::Result<uint64_t> most_bytes(const Strategy& strategy,
                                                Scope frozen,
                                                const ho::GroupMap& groups) const {
    return paro::most_bytes(shards_, plan().shape, strategy, frozen, groups);
  }
  // Of the communicators.
  [[nodiscard]] uint64_t library_bytes() const { return shards_.domains->memory_bytes(); }
  // Payload that this rank has sent for a phase, since creation.
  [[nodiscard]] const SentBytes& sent(Phase phase) const {
    return sent_[static_cast<size_t>(phase)];
  }
  [[nodiscard]] const std::array<SentBytes, 5>& sent() const { return sent_; }
  // What a runner before this one had sent counts as this one's, and what was loaded into it is to
  // be compared yet.
  struct History {
    std::array<SentBytes, 5> sent{};
    Loads loads;
    uint32_t micro_batches = 1;
  };
  [[nodiscard]] History history() const { return {sent_, loads_, plan().shape.micro_batches}; }
  [[nodiscard]] ho::Status carry_over(const History& history);
  // Plans that were proved right since creation: those of one number of micro-batches once.
  [[nodiscard]] uint64_t proofs() const { return proofs_; }
  // Steps that have changed masters.
  [[nodiscard]] uint64_t applied_steps() const { return updater_.applied_steps(); }
  // The error that broke the runner, or ok.
  [[nodiscard]] const ho::Status& broken() const { return shards_.broken; }

 private:
  // A collective under way.
  struct Running {
    StepAction step_action;
    std::unique_ptr<Transfer> transfer;
    std::chrono::steady_clock::time_point since;
  };

  StepRunner(
      RunnerConfig config, StepPlan plan, GroupsByUnit groups, Memory& memory, bool packs_one);
  // This rank's own part, without the others.
  [[nodiscard]] static ho::Result<std::unique_ptr<StepRunner>> prepare(const ho::GroupMap& groups,
                                                                       RunnerConfig config,
                                                                       Memory& memory);
  [[nodiscard]] ho::Status set_up(ho_comm* comm, const ho::GroupMap& groups, uint64_t timeout_ms);
  // Collective: the communicators, in place of those that there were.
  [[nodiscard]] ho::Status connect(ho_comm* comm, const ho::GroupMap& groups);
  // The config's plan of some number of micro-batches, unless that was proved before.
  [[nodiscard]] ho::Status prove(const StepPlan& plan, const ho::GroupMap& groups);

  // progress.cpp: what is under way.
  [[nodiscard]] ho::Status pump();
  // Breaks the runner, on all ranks, where they end the step differently.
  [[nodiscard]] ho::Status look_at_ends();
  // Blocks until it is over, and looks at ends meanwhile.
  [[nodiscard]] ho::Status wait_for(Transfer& transfer);
  [[nodiscard]] ho::Status complete_what_is_over(Track track);
  [[nodiscard]] ho::Status start(const StepAction& step_action);
  [[nodiscard]] ho::Status start_agree(Transfer& transfer);
  [[nodiscard]] ho::Status complete(Running& running);
  // Blocks until it has ended, and what it comes after.
  [[nodiscard]] ho::Status finish(StepAction step_action);
  // Ends what the micro-batches so far have set free, the same on every rank.
  [[nodiscard]] ho::Status settle();
  void watch(const StepAction& step_action, std::chrono::steady_clock::time_point since) const;
  [[nodiscard]] ho::Status break_with(const ho::Status& status, const StepAction& step_action);

  // hooks.cpp: a computation's begin and end.
  [[nodiscard]] ho::Result<UnitView> begin(Act act, uint32_t unit);
  [[nodiscard]] ho::Status end(Act act, uint32_t unit);
  [[nodiscard]] ho::Status expect(Act act, uint32_t unit, bool begins) const;
  [[nodiscard]] UnitView view_of(const StepAction& step_action) const;

  // step.cpp: a step's end.
  // Collective, after the step's last micro-batch: ends the agreement, in which all ranks end the
  // step or all discard it.
  [[nodiscard]] ho::Status decide(bool discards);
  [[nodiscard]] ho::Status refuse_rates();
  [[nodiscard]] ho::Status compare_loads();
  [[nodiscard]] ho::Status update_all(bool applies, double factor);

  // ending.cpp: steps of fewer micro-batches.
  // Of the present step, where no micro-batch is under way.
  [[nodiscard]] ho::Result<uint32_t> micro_batches_over(const char* what) const;
  // Collective: that all ranks end the present step so, after as many micro-batches.
  [[nodiscard]] ho::Status agree_on_end(StepEnds::Next end, uint32_t micro_batches);
  // Collective: that all ranks give set_micro_batches the same number.
  [[nodiscard]] ho::Status agree_on_count(uint32_t count);
  [[nodiscard]] ho::Status use_micro_batches(uint32_t count);
  void begin_step_anew();

  // between_steps.cpp
  [[nodiscard]] ho::Status between_steps(const char* what) const;
  // Collective: an error of all ranks where one cannot read.
  [[nodiscard]] ho::Status may_read(const char* what,
                                    uint32_t unit,
                                    uint64_t capacity,
                                    uint64_t UnitShape::*count);
  [[nodiscard]] ho::Status read(const char* what,
                                uint32_t unit,
                                const ShardOf& of,
                                std::span<float> values);
  [[nodiscard]] uint64_t steps() const { return scheduler_.step().value; }
  // As after that step.
  void go_on_from(StepIndex step);

  Shards shards_;
  Scheduler scheduler_;
  StepBuffers buffers_;
  Updater updater_;
  NotFiniteRecord not_finite_;  // of the present step
  Loads loads_;
  std::unique_ptr<StepEnds> ends_;
  std::array<std::deque<Running>, kTrackCount> running_;
  std::set<uint32_t> proved_;  // numbers of micro-batches
  uint64_t proofs_ = 0;
  bool packs_one_;
  bool signals_ = false;
  bool discards_ = false;   // in decide()
  bool computing_ = false;  // between a before_ and its after_
  StepSums agreed_;
  std::chrono::steady_clock::time_point computing_since_;
  std::chrono::steady_clock::time_point step_since_ = std::chrono::steady_clock::now();
  std::array<SentBytes, 5> sent_{};
  StepReport counted_;
};

}  // namespace paro
