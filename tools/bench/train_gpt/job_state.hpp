// What a checkpoint has of the training, beside the states.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "bench/train_gpt/gpt.hpp"

namespace paro::gpt {

struct JobState {
  Shape shape;
  uint64_t text_hash = 0;
  // Windows read. With the seed (shape.seed) that is all there is of random numbers in training.
  uint64_t samples = 0;
};

// Of an option, without its dashes.
struct Setting {
  std::string name;
  std::string value;
};
using Settings = std::vector<Setting>;
// Always the same ones, in the same order.
[[nodiscard]] Settings settings_of(const Shape& shape);

[[nodiscard]] std::string to_json(const JobState& state);
[[nodiscard]] ho::Result<JobState> parse_job_state(const std::string& text);
// Ok, or which option differs from those that it was saved with.
[[nodiscard]] ho::Status check_same_model(const Shape& saved, const Shape& now);

}  // namespace paro::gpt
