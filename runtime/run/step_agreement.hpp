// What the ranks decide together at the end of a step: whether they end it by the same call, with
// the same learning rate and the same initial values, and whether it is taken or left out. One
// small sum over all ranks says all of it; only where it says that something differs do they ask
// more.
//
// Owner: StepRunner, on its thread; the shards outlive it.
#pragma once

#include <string>

#include "run/loads.hpp"
#include "run/not_finite.hpp"
#include "run/shards.hpp"
#include "run/step_sums.hpp"
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
  // After it, here and below. `step`: its name. Breaks the runner, on all ranks, where some drop
  // the step and others end it.
  [[nodiscard]] ho::Status check_end(const std::string& step);
  // The same where rates or initial values differ.
  [[nodiscard]] ho::Status check_inputs(const std::string& step);

  // Of the averaged gradient; and whether masters are to change. Where not, the ranks have told why
  // (the loss scale `shrinks`).
  struct Decision {
    double norm = 0;
    bool applies = false;
  };
  [[nodiscard]] ho::Result<Decision> decision(const StepControl& control,
                                              const std::string& step,
                                              bool shrinks);
  [[nodiscard]] const StepSums& sums() const { return sums_; }
  [[nodiscard]] bool any_signals() const { return sums_.any_signals(); }
  // What was found of a step's gradients is over.
  void begin_step();
  void carry_over(const Loads& loads) { loads_ = loads; }

  // Collective, between steps: that all ranks give set_micro_batches the same number; else
  // kMismatch on all. `what` is being done.
  [[nodiscard]] ho::Status agree_on_count(uint32_t count, const std::string& what);

 private:
  [[nodiscard]] ho::Status refuse_rates(const std::string& step);
  [[nodiscard]] ho::Status compare_loads(const std::string& step);
  [[nodiscard]] std::string here(const std::string& step) const {
    return "rank " + std::to_string(shards_.self().value()) + ", " + step;
  }

  Shards& shards_;
  NotFiniteRecord not_finite_;  // of the present step
  Loads loads_;
  StepSums sums_;
  bool signals_ = false;
  bool discards_ = false;
};

}  // namespace paro
