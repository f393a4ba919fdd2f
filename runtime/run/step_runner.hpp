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
// Its parts, all on its Shards: Hooks (around computations), StepProgress (what is under way),
// StepAgreement (what ranks decide at a step's end), Updater, BetweenSteps (states between steps),
// PlanProofs. What is here joins them: how a runner begins (step_runner.cpp), how a step ends
// (step.cpp), how it goes on after an error.
#pragma once

#include <horing.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "run/between_steps.hpp"
#include "run/hooks.hpp"
#include "run/plan_proofs.hpp"
#include "run/runner_config.hpp"
#include "run/shards.hpp"
#include "run/step_agreement.hpp"
#include "run/step_progress.hpp"
#include "run/updater.hpp"

namespace paro {

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

  // What the framework calls around each computation, and the end of the step.
  [[nodiscard]] ho::Result<UnitView> before_forward(uint32_t unit);
  [[nodiscard]] ho::Status after_forward(uint32_t unit);
  [[nodiscard]] ho::Result<UnitView> before_backward(uint32_t unit);
  [[nodiscard]] ho::Status after_backward(uint32_t unit);
  // Starts what may start by now; never blocks. For long computations of which the calling thread
  // is free: without it collectives that follow one another wait for the next hook.
  [[nodiscard]] ho::Status poll() { return progress_->poll(); }
  // Collective: agrees, updates, starts sync-p. With states on a device nothing here waits for what
  // it gives them: the report has the outcome of the step before.
  [[nodiscard]] ho::Result<StepReport> step();
  // The last step's report with its own outcome, for which it waits, at most so long (0: until a
  // deadline). nullopt: it is not known yet, and nothing has changed.
  [[nodiscard]] ho::Result<std::optional<StepReport>> flush(uint64_t timeout_ms);
  // Collective, after fewer micro-batches than there are: the step is of those, as if there were no
  // more. All ranks after as many.
  [[nodiscard]] ho::Result<StepReport> step_early();
  // Collective, after any number of micro-batches: their gradients are dropped, and the step begins
  // anew with its first. All ranks after as many. After none it does nothing.
  [[nodiscard]] ho::Status discard();
  // Collective, between steps: steps have so many micro-batches, at most the config's.
  [[nodiscard]] ho::Status set_micro_batches(uint32_t count);
  // Ends what step() started. Collective in effect: the others must have called step() too.
  [[nodiscard]] ho::Status synchronize() { return progress_->synchronize(); }

  // Whether this rank has something to tell the others, which all learn from the next step().
  void signal(bool has) { agreement_.signal(has); }
  // From the next step() on, which fails on all ranks where the ranks' rates differ.
  void set_learning_rate(double rate);

  // States between steps: loaded, read, compared, saved and restored.
  [[nodiscard]] BetweenSteps& between_steps() { return between_steps_; }
  [[nodiscard]] const BetweenSteps& between_steps() const { return between_steps_; }
  // Collective: goes on after an error, over a communicator of the same ranks in the same order.
  // Gradients of the step that failed are dropped. Fails if the ranks have applied different
  // numbers of steps.
  [[nodiscard]] ho::Status rejoin(ho_comm* comm);
  // Any thread.
  void abort(const char* reason) { shards_.domains->abort(reason); }

  // This rank's states, layouts, communicators and bytes (budget.hpp predicts them).
  [[nodiscard]] const Shards& shards() const { return shards_; }
  [[nodiscard]] const RunnerConfig& config() const { return shards_.config; }
  [[nodiscard]] const StepPlan& plan() const { return progress_->scheduler().plan(); }
  [[nodiscard]] ho::GlobalRank self() const { return shards_.self(); }
  [[nodiscard]] const ho::GroupMap& groups() const { return shards_.domains->groups(); }
  // The error that broke the runner, or ok.
  [[nodiscard]] const ho::Status& broken() const { return shards_.broken; }
  // Payload that this rank has sent for a phase, since creation.
  [[nodiscard]] const SentBytes& sent(Phase phase) const {
    return progress_->sent()[static_cast<size_t>(phase)];
  }
  // Plans that were proved right since creation: those of one number of micro-batches once.
  [[nodiscard]] const PlanProofs& proofs() const { return proofs_; }
  // Its loss scale, and how many steps have changed masters.
  [[nodiscard]] const Updater& updater() const { return updater_; }
  // What a runner before this one had sent counts as this one's, and what was loaded into it is to
  // be compared yet.
  struct History {
    std::array<SentBytes, 5> sent{};
    Loads loads;
    uint32_t micro_batches = 1;
    StepReport last;
    StepOutcome outcome;
    bool signalled = false;
  };
  [[nodiscard]] History history() const {
    return {progress_->sent(),
            agreement_.loads(),
            plan().shape.micro_batches,
            last_,
            agreement_.outcome(),
            signalled_};
  }
  [[nodiscard]] ho::Status carry_over(const History& history);

 private:
  StepRunner(
      RunnerConfig config, StepPlan plan, GroupsByUnit groups, Memory& memory, bool packs_one);
  // This rank's own part, without the others.
  [[nodiscard]] static ho::Result<std::unique_ptr<StepRunner>> prepare(const ho::GroupMap& groups,
                                                                       RunnerConfig config,
                                                                       Memory& memory);
  [[nodiscard]] ho::Status set_up(ho_comm* comm, const ho::GroupMap& groups, uint64_t timeout_ms);
  // Collective: the communicators, in place of those that there were.
  [[nodiscard]] ho::Status connect(ho_comm* comm, const ho::GroupMap& groups);
  // The present step, or the one before.
  [[nodiscard]] const Scheduler& scheduler() const { return progress_->scheduler(); }
  [[nodiscard]] std::string step_name() const { return name(scheduler().step()); }

  // Collective, after the step's last micro-batch: the agreement, in which all ranks end the step
  // or all discard it, and the decision behind it.
  [[nodiscard]] ho::Status decide(bool discards);
  // nullptr: the outcome is known where the states are, and not here yet.
  [[nodiscard]] ho::Status update_all(const StepOutcome* known);
  [[nodiscard]] ho::Status end_on_device();
  [[nodiscard]] ho::Status end_what_failed();
  // Of the present step, where no micro-batch is under way.
  [[nodiscard]] ho::Result<uint32_t> micro_batches_over(const char* what) const;
  // Collective: that all ranks end the present step so, after as many micro-batches.
  [[nodiscard]] ho::Status agree_on_end(StepEnds::Next end, uint32_t micro_batches);
  [[nodiscard]] ho::Status use_micro_batches(uint32_t count);

  Shards shards_;
  Updater updater_;
  StepAgreement agreement_;
  std::unique_ptr<StepProgress> progress_;
  Hooks hooks_;
  BetweenSteps between_steps_;
  PlanProofs proofs_;
  StepReport last_;         // of the last step
  bool signalled_ = false;  // its report said so
};

}  // namespace paro
