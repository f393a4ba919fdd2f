// Which strategy to train with, where the user leaves that open.
#pragma once

#include <horing/communicator.hpp>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "bench/train_gpt/gpt.hpp"
#include "bench/train_gpt/options.hpp"

namespace paro::gpt {

struct Choice {
  std::vector<std::string> strategies;  // that should fit, the best first; at least one
  std::string why;                      // the first
};

// Collective, the same on all ranks: measures the links and runs the planner.
[[nodiscard]] ho::Result<Choice> choose_strategy(horing::Communicator& job,
                                                 const Options& options,
                                                 Cost cost);

}  // namespace paro::gpt
