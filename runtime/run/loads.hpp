// What all ranks must give and take, although each looks at its own part only: initial values,
// and which unit is read.
//
// Owner: StepRunner, on its thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "run/shards.hpp"

namespace paro {

// Hashes of what load() was given since the ranks last compared it.
class Loads {
 public:
  void note(const RunnerConfig& config,
            uint32_t unit,
            std::span<const float> trained,
            std::span<const float> frozen);
  void forget() { hashes_.clear(); }
  [[nodiscard]] bool any() const { return !hashes_.empty(); }
  // By unit; 0: nothing.
  [[nodiscard]] std::vector<uint64_t> hashes(size_t units) const;
  // Collective: kMismatch on all ranks where they were given different values. `where` compares.
  [[nodiscard]] ho::Status agree(const Shards& shards, const std::string& where) const;

 private:
  std::vector<uint64_t> hashes_;  // none, or by unit
};

// Collective: that all ranks read the same, into as much room, and were given the same values.
// Breaks the runner where they cannot be asked.
[[nodiscard]] ho::Status agree_on_read(
    Shards& shards, const Loads& loads, const char* what, uint32_t unit, uint64_t capacity);

}  // namespace paro
