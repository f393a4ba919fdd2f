// The toy model trained through paro.h, on a rank that is a thread. What goes wrong is thrown.
#pragma once

#include <paro.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/paro/toy_model/training.hpp"

namespace paro::test {

// Throws std::runtime_error with libparo's message unless status is HO_OK.
void must(ho_status status);
// Throws unless a promise was kept.
void expect(bool kept, const std::string& promise);
// Throws unless the call failed so, with `text` in its message.
void expect_refusal(ho_status status, ho_status wanted, const std::string& text);

struct DestroyRunner {
  void operator()(paro_runner* runner) const { paro_runner_destroy(runner); }
};
using OwnedRunner = std::unique_ptr<paro_runner, DestroyRunner>;

// The training's options; the strategy's letters go to `letters`, which must live as long.
[[nodiscard]] paro_runner_options options_of(const toy::Training& training, std::string& letters);

class Trainer {
 public:
  // Collective.
  Trainer(ho_comm* comm, const toy::Training& training, const paro_runner_options& options);
  Trainer(ho_comm* comm, const toy::Training& training);

  [[nodiscard]] paro_runner* runner() const { return runner_.get(); }
  [[nodiscard]] const toy::Model& model() const { return model_; }
  void destroy() { runner_.reset(); }

  // Hooks up to and without paro_runner_step(); this rank's mean loss.
  double compute(uint64_t step);
  // One whole step, with the loss of all ranks. Collective over `comm` too.
  toy::StepOutcome step(ho_comm* comm, uint64_t step);
  // All steps, and whole masters.
  toy::Outcome train(ho_comm* comm);
  [[nodiscard]] std::vector<std::vector<float>> masters() const;

 private:
  toy::Training training_;
  toy::Model model_;
  uint32_t rank_;
  uint32_t world_;
  OwnedRunner runner_;
};

}  // namespace paro::test
