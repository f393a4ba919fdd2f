// What rank 0 reports of the steps: a line for people, and lines of JSON.
#pragma once

#include <chrono>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

namespace paro::gpt {

// Of one step, over all ranks.
struct StepLine {
  uint64_t step = 0;
  double loss = 0;
  double norm = 0;
  bool applied = true;
  double seconds = 0;
  double compute_s = 0;  // means over the ranks
  double exposed_s = 0;  // blocked for other ranks
  double tokens = 0;
  std::string strategy;
  [[nodiscard]] double tokens_per_s() const { return seconds > 0 ? tokens / seconds : 0; }
};

class Progress {
 public:
  // A file that is "" is not written. `resumed_after`: its lines up to that step stay.
  Progress(std::string json, uint64_t last_step, std::optional<uint64_t> resumed_after);
  // "" or why the file cannot be written: printed before anything is trained.
  [[nodiscard]] const std::string& error() const { return error_; }
  void add(const StepLine& line);
  // "" or why the file could not be written.
  [[nodiscard]] std::string finish();

 private:
  using Clock = std::chrono::steady_clock;
  void keep_up_to(uint64_t step);
  void show(const StepLine& line, bool last);

  std::string json_name_;
  uint64_t last_step_;
  std::string error_;
  std::ofstream json_;
  bool terminal_;
  Clock::time_point drawn_{};
};

}  // namespace paro::gpt
