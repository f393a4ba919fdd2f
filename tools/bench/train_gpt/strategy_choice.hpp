// Which strategy to train with, where the user leaves that open.
#pragma once

#include <horing/communicator.hpp>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace paro::gpt {

struct Load {
  double parameters = 0;
  double trained = 0;
  double shared = 0;  // of them, in the unit that the head shares
  double shared_trained = 0;
  uint32_t layers = 0;  // units beside that one and the head
  uint32_t accumulation = 1;
  double micro_batch_s = 0;  // computation
  bool sixteen_bits = false;
  double memory_bytes = 0;  // 0: no limit
};

struct Choice {
  std::vector<std::string> strategies;  // that should fit, the best first; at least one
  std::string why;                      // the first
};

// Collective, the same on all ranks: measures the links and runs the planner.
[[nodiscard]] ho::Result<Choice> choose_strategy(horing::Communicator& job, const Load& load);

}  // namespace paro::gpt
