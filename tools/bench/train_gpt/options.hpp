// The options of train_gpt. Pure, but for usage that is printed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/train_gpt/gpt.hpp"
#include "cli/subcommands/exit_status.hpp"

namespace paro::gpt {

struct Options {
  Shape shape;
  std::string from;  // a file of initial values
  bool bfloat16 = false;
  std::vector<std::string> texts;
  std::string strategy = "auto";
  uint64_t memory_bytes = 0;  // of a rank, for states; 0: no limit
  uint32_t group_size = 0;
  std::string algorithm = "ho_ring";
  uint32_t batch = 4;  // samples of a micro-batch on one rank
  uint32_t accumulation = 1;
  uint32_t steps = 200;
  double learning_rate = 1e-3;
  double clip = 1;
  uint32_t threads = 1;
  std::string save;
  uint32_t save_every = 0;
  bool resume = false;
  std::string json;
  uint32_t sample = 0;  // bytes
};

[[nodiscard]] ho::Parsed<Options> parse_options(int argc, const char* const* argv);

}  // namespace paro::gpt
