// On hosts: a collective starts as soon as it may, is under way while the framework computes,
// completes in the order of its track, and is waited for where something needs it.
#pragma once

#include "run/step_progress.hpp"

namespace paro {

class StartWhenReady final : public StepProgress {
 public:
  // See Scheduler for `packs_one`.
  StartWhenReady(
      Shards& shards, Updater& updater, StepAgreement& agreement, StepPlan plan, bool packs_one)
      : StepProgress(shards, updater, agreement, std::move(plan), packs_one) {}

  [[nodiscard]] ho::Status poll() override;
  [[nodiscard]] ho::Status begin_computation() override;
  [[nodiscard]] ho::Status end_computation(std::chrono::steady_clock::time_point since) override;
  [[nodiscard]] ho::Status agree() override;
  [[nodiscard]] ho::Status end_agreement() override { return {}; }
  [[nodiscard]] ho::Status settle() override;
  [[nodiscard]] ho::Status synchronize() override;

 private:
  void drop_running() override;
  // Blocks until it has ended, and what it comes after.
  [[nodiscard]] ho::Status finish(StepAction step_action);
  // Blocks until it is over, and looks at ends meanwhile.
  [[nodiscard]] ho::Status wait_for(Transfer& transfer);
  [[nodiscard]] ho::Status complete_what_is_over(Track track);
  // Blocks until it has ended.
  [[nodiscard]] ho::Status complete(Running& running);

  RunningOfTracks running_;
};

}  // namespace paro
