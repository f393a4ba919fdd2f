// Checkpoints of `paro train`: when it saves, and where it goes on.
#pragma once

#include <horing/communicator.hpp>
#include <memory>
#include <string>

#include "checkpoint/saver.hpp"
#include "cli/paro/toy_model/training.hpp"
#include "run/step_runner.hpp"

namespace paro::tool {

struct SaveSettings {
  std::string folder;  // empty: nothing is saved
  uint32_t every = 0;  // steps; 0: after the last only
  bool resume = false;
};

// Everything is collective and throws horing::Error, the same on all ranks.
class TrainStore {
 public:
  TrainStore(horing::Communicator& job,
             const SaveSettings& plan,
             const toy::Training& training,
             const std::unique_ptr<StepRunner>& runner);

  // Where the job goes on: the states are those of so many steps, whose data it has seen.
  struct Start {
    uint64_t step = 0;
    bool same_batches = true;  // whether those steps had as many samples as this job's
  };
  [[nodiscard]] Start begin();
  // After `steps` steps: saves in the background where it is time.
  void after_step(uint64_t steps);
  // The outcome of the last save.
  void finish();

 private:
  [[nodiscard]] Start restore();
  [[nodiscard]] uint64_t samples_per_step() const;

  horing::Communicator& job_;
  const SaveSettings& plan_;
  const toy::Training& training_;
  const std::unique_ptr<StepRunner>& runner_;  // another one after a change of strategy
  checkpoint::Saver saver_;
  ho::Fd claim_;  // on rank 0
};

}  // namespace paro::tool
