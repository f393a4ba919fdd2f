// On a device: the actions of a step are given to its streams, one for each track, in the one order
// of step/streams.hpp, which is the same on all ranks. Marks on the streams see to it that each
// comes after what it needs. Nothing here waits for the device but synchronize().
#pragma once

#include <vector>

#include "run/step_progress.hpp"
#include "step/streams.hpp"

namespace paro {

class StartInOrder final : public StepProgress {
 public:
  StartInOrder(
      Shards& shards, Updater& updater, StepAgreement& agreement, StepPlan plan, bool packs_one);

  [[nodiscard]] ho::Status allocate(const StateShape& shape) override;
  [[nodiscard]] ho::Status poll() override;
  [[nodiscard]] ho::Status begin_computation() override;
  [[nodiscard]] ho::Status end_computation(std::chrono::steady_clock::time_point since) override;
  [[nodiscard]] ho::Status agree() override;
  [[nodiscard]] ho::Status end_agreement() override;
  [[nodiscard]] ho::Status settle() override;
  [[nodiscard]] ho::Status end_after(uint32_t micro_batches) override;
  [[nodiscard]] ho::Status synchronize() override;

 private:
  using Marks = std::vector<std::unique_ptr<Mark>>;

  void restart() override;
  [[nodiscard]] ho::Status take_plan() override;
  void drop_running() override;
  [[nodiscard]] ho::Status make_marks(Marks& marks, size_t count);

  [[nodiscard]] const Action& action(ActionId id) const {
    return scheduler_.plan().actions[id.at()];
  }
  // Of micro-batches that do not come, since the step ends early.
  [[nodiscard]] bool is_left_out(const Action& action) const;
  // The collectives up to what comes next of computations and the agreement.
  [[nodiscard]] ho::Status launch_next();
  [[nodiscard]] ho::Status launch(const Launch& launch);
  // What the track's stream has by then is in order: gives it the action's collective.
  [[nodiscard]] ho::Status start_in_turn(const StepAction& step_action);
  // After what somebody else has launched: the rest follows it.
  [[nodiscard]] ho::Status go_on_after(ActionId id);
  // What its stream is given from now on comes after what the action has to come after. An error:
  // it may not, and nothing must be begun there.
  [[nodiscard]] ho::Status come_after_others(const StepAction& step_action);
  // The action's event stands for what its stream was given.
  void record(ActionId id);
  // What any stream is given from now on comes after all that all were given.
  void join();
  // Counts what is over, or waits for all that was launched.
  [[nodiscard]] ho::Status complete(bool all);

  StepStreams streams_;
  std::vector<size_t> positions_;  // by action: of its launch
  size_t next_ = 0;                // launch of the present step
  std::vector<bool> left_;         // by action: launches of the last step that are yet to come
  Marks events_;
  std::vector<bool> recorded_;  // by event
  Marks joined_;                // by track
  bool joins_ = false;          // before the next launch: states were used otherwise
  Marks last_;                  // of the last collective, where they are carried out one at a time
  RunningOfTracks running_;
};

}  // namespace paro
