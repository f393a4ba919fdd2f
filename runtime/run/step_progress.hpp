// What of a step is under way: collectives start when they may, complete in the order of their
// track, and are waited for where something needs them. Counts what it took.
//
// Where all is on one stream (Shards::in_order()), a collective of states ends for the plan when it
// is begun. What starts is then a matter of the hooks that were called, not of time, so that all
// ranks start the same in the same order, as NCCL wants it.
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
  StepProgress(Shards& shards,
               const Updater& updater,
               StepAgreement& agreement,
               StepPlan plan,
               bool packs_one);

  [[nodiscard]] Scheduler& scheduler() { return scheduler_; }
  [[nodiscard]] const Scheduler& scheduler() const { return scheduler_; }
  [[nodiscard]] StepBuffers& buffers() { return buffers_; }
  [[nodiscard]] const StepBuffers& buffers() const { return buffers_; }
  // Of this rank with the others', once there are communicators.
  [[nodiscard]] StepEnds& ends() { return *ends_; }

  // Starts and completes what may. Never blocks.
  [[nodiscard]] ho::Status pump();
  // Blocks until it has ended, and what it comes after.
  [[nodiscard]] ho::Status finish(StepAction step_action);
  // The same for all that a computation comes after.
  [[nodiscard]] ho::Status finish_before(const StepAction& computation);
  // Ends what the micro-batches so far have set free, the same on every rank.
  [[nodiscard]] ho::Status settle();
  // Ends what the last step started.
  [[nodiscard]] ho::Status synchronize();
  // The present computation is over.
  void end_computation(std::chrono::steady_clock::time_point since);

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
  void follow(StepPlan plan);
  // What was under way is gone, and the communicators are to be others: use_ends() comes next.
  void drop_all();
  // Before the first step: over a communicator of all ranks, borrowed; nullptr: this rank is alone.
  void use_ends(ho_comm* all_ranks);

 private:
  // A collective under way.
  struct Running {
    StepAction step_action;
    std::unique_ptr<Transfer> transfer;
    std::chrono::steady_clock::time_point since;
  };

  // Breaks the runner, on all ranks, where they end the step differently.
  [[nodiscard]] ho::Status look_at_ends();
  // Blocks until it is over, and looks at ends meanwhile.
  [[nodiscard]] ho::Status wait_for(Transfer& transfer);
  [[nodiscard]] ho::Status complete_what_is_over(Track track);
  [[nodiscard]] ho::Status start(const StepAction& step_action);
  [[nodiscard]] ho::Status begin(const Action& action, ActionId id, Transfer& transfer);
  // Blocks until it has ended.
  [[nodiscard]] ho::Status complete(Running& running);
  // The same of what ends on the stream, in the order of begin: all of it, or what is over.
  [[nodiscard]] ho::Status complete_on_stream(bool all);
  // Its results are there, for what comes next.
  void end(const StepAction& step_action);
  // Blocks until it has ended; counts it.
  [[nodiscard]] ho::Status account(Running& running);
  void watch(const StepAction& step_action, std::chrono::steady_clock::time_point since) const;
  [[nodiscard]] ho::Status break_with(const ho::Status& status, const StepAction& step_action);

  Shards& shards_;
  const Updater& updater_;
  StepAgreement& agreement_;
  Scheduler scheduler_;
  StepBuffers buffers_;
  std::unique_ptr<StepEnds> ends_;
  std::array<std::deque<Running>, kTrackCount> running_;
  std::deque<Running> on_stream_;  // ended for the plan
  std::array<SentBytes, 5> sent_{};
  StepReport counted_;
  std::chrono::steady_clock::time_point step_since_ = std::chrono::steady_clock::now();
  bool packs_one_;
};

}  // namespace paro
