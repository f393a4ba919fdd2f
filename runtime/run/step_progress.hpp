// What of a step is under way, between the hooks of a framework and the collectives of the plan;
// and what it took. How collectives start is one of two: as soon as they may (start_when_ready.hpp,
// on hosts), or in one order of launches on a device's streams (start_in_order.hpp).
//
// Errors break the shards' runner; they name the action.
//
// Owner: StepRunner, on its thread. What its constructor is given outlives it.
#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <memory>

#include "run/scheduler.hpp"
#include "run/shards.hpp"
#include "run/step_agreement.hpp"
#include "run/step_buffers.hpp"
#include "run/step_ends.hpp"
#include "run/step_report.hpp"
#include "run/updater.hpp"

namespace paro {

class StepProgress {
 public:
  StepProgress(const StepProgress&) = delete;
  StepProgress& operator=(const StepProgress&) = delete;
  virtual ~StepProgress() = default;

  [[nodiscard]] Scheduler& scheduler() { return scheduler_; }
  [[nodiscard]] const Scheduler& scheduler() const { return scheduler_; }
  [[nodiscard]] const StepBuffers& buffers() const { return buffers_; }
  // Of this rank with the others', once there are communicators.
  [[nodiscard]] StepEnds& ends() { return *ends_; }

  // Once.
  [[nodiscard]] virtual ho::Status allocate(const StateShape& shape);
  // Looks at what is under way, and starts what may start outside of hooks. Never blocks.
  [[nodiscard]] virtual ho::Status poll() = 0;
  // The present computation begins: what it comes after has ended, or ends before what the
  // framework's stream is given from now on.
  [[nodiscard]] virtual ho::Status begin_computation() = 0;
  // It is over, or given to the stream. Others may start, of which this is the error.
  [[nodiscard]] virtual ho::Status end_computation(std::chrono::steady_clock::time_point since) = 0;
  // The ranks' sums that end the step are there, or are before what the stream of reductions is
  // given from now on.
  [[nodiscard]] virtual ho::Status agree() = 0;
  // So is what they decide: updates come next.
  [[nodiscard]] virtual ho::Status end_agreement() = 0;
  // Blocks until the host knows what they have decided on the last step that asks, or for so long
  // (0: until a deadline): whether it does.
  [[nodiscard]] ho::Result<bool> know_outcome(uint64_t timeout_ms = 0);
  // The same of a step whose updates were given before: they count from now on. Of this rank alone,
  // unless ranks refuse the step.
  [[nodiscard]] ho::Result<bool> know_last_step(uint64_t timeout_ms = 0);
  // Collective: the same, and where it was left out the ranks tell why.
  [[nodiscard]] ho::Status end_last_step();
  // Ends what the micro-batches so far have set free, the same on every rank.
  [[nodiscard]] virtual ho::Status settle() = 0;
  // The present step has so many micro-batches only. All that adds to their sums has been begun,
  // and what is done with these now comes after it.
  [[nodiscard]] virtual ho::Status end_after(uint32_t micro_batches);
  // Ends what the last step started.
  [[nodiscard]] virtual ho::Status synchronize() = 0;

  // The present step's, since the last one ended.
  [[nodiscard]] StepReport& counted() { return counted_; }
  [[nodiscard]] const std::array<SentBytes, 5>& sent() const { return sent_; }
  void carry_over(const std::array<SentBytes, 5>& sent) { sent_ = sent; }

  // The next step is this one, from its beginning. Nothing is under way.
  void go_on_from(StepIndex step);
  // The same of the present step: what was counted since the last one stays.
  void begin_step_anew();
  // The step is over: what was counted of it, in all.
  [[nodiscard]] StepReport end_step(std::chrono::steady_clock::time_point end);
  // Another plan, of as many buffers. Nothing is under way.
  [[nodiscard]] ho::Status follow(StepPlan plan);
  // What was under way is gone, and the communicators are to be others: use_ends() comes next.
  void drop_all();
  // Before the first step: over a communicator of all ranks, borrowed; nullptr: this rank is alone.
  void use_ends(ho_comm* all_ranks);

 protected:
  StepProgress(
      Shards& shards, Updater& updater, StepAgreement& agreement, StepPlan plan, bool packs_one);

  // A collective under way.
  struct Running {
    StepAction step_action;
    std::unique_ptr<Transfer> transfer;
    std::chrono::steady_clock::time_point since;
  };
  using RunningOfTracks = std::array<std::deque<Running>, kTrackCount>;

  // Begins it, as the last one of its track.
  [[nodiscard]] ho::Status start(const StepAction& step_action, RunningOfTracks& running);
  // What becomes of its results, once they are there.
  void take_results(const StepAction& step_action);
  // Blocks until it has ended; counts it, and shows it to whoever watches.
  [[nodiscard]] ho::Status account(Running& running);
  void watch(const StepAction& step_action, std::chrono::steady_clock::time_point since) const;
  // Breaks the runner, on all ranks, where they end the step differently.
  [[nodiscard]] ho::Status look_at_ends();
  [[nodiscard]] ho::Status break_with(const ho::Status& status, const StepAction& step_action);
  [[nodiscard]] StepAction agreement_action() const;

  // Of what starts: the step begins anew; the plan is another one; all is gone.
  virtual void restart() {}
  [[nodiscard]] virtual ho::Status take_plan() { return {}; }
  virtual void drop_running() = 0;

  Shards& shards_;
  Updater& updater_;
  StepAgreement& agreement_;
  Scheduler scheduler_;
  StepBuffers buffers_;
  std::unique_ptr<StepEnds> ends_;
  StepReport counted_;

 private:
  [[nodiscard]] ho::Result<bool> wait_for_copy(uint64_t timeout_ms);
  [[nodiscard]] ho::Status begin(const Action& action, ActionId id, Transfer& transfer);

  std::array<SentBytes, 5> sent_{};
  std::chrono::steady_clock::time_point step_since_ = std::chrono::steady_clock::now();
  bool packs_one_;
};

}  // namespace paro
