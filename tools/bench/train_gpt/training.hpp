// A training from the command line's options to the sample at its end.
#pragma once

#include <horing/communicator.hpp>
#include <stdexcept>

#include "bench/train_gpt/options.hpp"

namespace paro::gpt {

// Collective. Throws; a Refusal where all ranks have the same one, for rank 0 to print.
void train(horing::Communicator& job, const Options& options);

class Refusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace paro::gpt
