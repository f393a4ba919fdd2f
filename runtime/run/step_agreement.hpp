// What the ranks decide together at the end of a step: whether they end it by the same call, with
// the same learning rate and the same initial values, and whether it is taken or left out. One
// small sum over all ranks says all of it, where the states are: updates can be given there before
// this rank's host knows, and are not carried out where something differs. Then the ranks ask more.
//
// Owner: StepRunner, on its thread; the shards outlive it.
#pragma once

#include <optional>
#include <string>

#include "run/loads.hpp"
#include "run/not_finite.hpp"
#include "run/shards.hpp"
#include "run/step_cursor.hpp"
#include "run/step_report.hpp"
#include "run/updater.hpp"

namespace paro {

class StepAgreement {
 public:
  explicit StepAgreement(Shards& shards) : shards_(shards) {}

  // Of this rank, for the sum. has something to tell the others:
  void signal(bool has) { signals_ = has; }
  // It drops the step instead of ending it.
  void set_discards(bool discards) { discards_ = discards; }
  [[nodiscard]] Loads& loads() { return loads_; }
  [[nodiscard]] const Loads& loads() const { return loads_; }
  [[nodiscard]] NotFiniteRecord& not_finite() { return not_finite_; }

  // Begins the sum, of a step of so many micro-batches.
  [[nodiscard]] ho::Status begin(const Updater& updater,
                                 uint32_t micro_batches,
                                 Transfer& transfer);
  // Behind it: what the ranks decide, for updates that follow on any stream behind that of
  // reductions, and a copy of it, which is on its way from then on.
  void decide(const Updater& updater, StepIndex step, uint32_t micro_batches);

  // The name of the step of which the copy is on its way; nullptr: of none.
  [[nodiscard]] const std::string* waits_for() const { return waits_ ? &waits_->name : nullptr; }
  // The copy is there. Breaks the runner, on all ranks, where some drop the step and others end it,
  // or where rates or initial values differ; nothing was updated then.
  [[nodiscard]] ho::Status take();
  // Collective, after it: where the step was left out, the ranks tell why, once. The norm is
  // infinite before that, also where it is no number.
  [[nodiscard]] ho::Status tell_why();
  // Something has failed. True: the step that waits, of which the copy is there, was ended
  // nevertheless, and this is its outcome.
  [[nodiscard]] bool drop();
  // The last that was taken.
  [[nodiscard]] const StepOutcome& outcome() const { return outcome_; }
  // What was found of a step's gradients is over.
  void begin_step();
  void carry_over(const Loads& loads, const StepOutcome& outcome) {
    loads_ = loads;
    outcome_ = outcome;
  }

  // Collective, between steps: that all ranks give set_micro_batches the same number; else
  // kMismatch on all. `what` is being done.
  [[nodiscard]] ho::Status agree_on_count(uint32_t count, const std::string& what);

 private:
  // Of the step that waits.
  struct Waiting {
    std::string name;
    uint64_t step = 0;
    double loss_scale = 1;
    bool shrinks = false;
    NotFiniteRecord not_finite;
  };
  [[nodiscard]] StepOutcome outcome_of(const Waiting& waiting) const;
  [[nodiscard]] double ranks() const { return shards_.domains->groups().world_size(); }
  [[nodiscard]] ho::Status check_end(const std::string& step);
  [[nodiscard]] ho::Status check_inputs(const std::string& step);
  // The step, for a reason that all ranks find out.
  [[nodiscard]] ho::Status refuse(const std::string& why);
  [[nodiscard]] ho::Status refuse_rates(const std::string& step);
  [[nodiscard]] ho::Status compare_loads(const std::string& step);
  [[nodiscard]] std::string here(const std::string& step) const {
    return "rank " + std::to_string(shards_.self().value()) + ", " + step;
  }

  Shards& shards_;
  NotFiniteRecord not_finite_;  // of the present step
  Loads loads_;
  std::optional<Waiting> waits_;
  std::optional<Waiting> untold_;  // it was left out, and nobody has told why
  ControlMemory::Parts parts_{};   // the copy
  StepOutcome outcome_;
  double rate_ = 0;  // that this rank has voted for
  bool signals_ = false;
  bool discards_ = false;
};

}  // namespace paro
