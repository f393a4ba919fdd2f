// What a framework calls around each computation: the unit's parameters are there when it begins,
// and its gradients are taken when it ends.
//
// Owner: StepRunner, on its thread. What its constructor is given outlives it.
#pragma once

#include <chrono>

#include "run/shards.hpp"
#include "run/step_progress.hpp"

namespace paro {

// Whole parameters of a unit, padding not counted; nullptr for none. Valid until the hook's
// counterpart. Read only.
struct UnitView {
  const void* trained = nullptr;
  const void* frozen = nullptr;
  // Backward only: add the micro-batch's gradients of the loss times loss_scale() here.
  void* gradients = nullptr;
};

class Hooks {
 public:
  Hooks(Shards& shards, StepProgress& progress)
      : shards_(shards), config_(shards.config), progress_(progress) {}

  [[nodiscard]] ho::Result<UnitView> begin(Act act, uint32_t unit);
  [[nodiscard]] ho::Status end(Act act, uint32_t unit);
  // Between a begin and its end.
  [[nodiscard]] bool computing() const { return computing_; }
  // Ok, or an error that says which call comes next instead.
  [[nodiscard]] ho::Status expect(Act act, uint32_t unit, bool begins) const;
  // As if none had been called.
  void forget() { computing_ = false; }

 private:
  [[nodiscard]] UnitView view_of(const StepAction& step_action) const;
  // Where a backward pass's gradients are added up, as they are sent.
  [[nodiscard]] ElementView gradients_of(const StepAction& step_action) const;

  Shards& shards_;
  const RunnerConfig& config_;
  StepProgress& progress_;
  bool computing_ = false;
  std::chrono::steady_clock::time_point computing_since_;
};

}  // namespace paro
