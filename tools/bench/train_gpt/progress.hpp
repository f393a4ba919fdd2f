// What rank 0 reports of the steps: a line for people, lines of JSON, a curve.
#pragma once

#include <chrono>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

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
  // Files that are "" are not written. `resumed_after`: the JSON's lines up to that step stay, and
  // are part of the curve.
  Progress(std::string json,
           std::string svg,
           uint64_t last_step,
           std::optional<uint64_t> resumed_after);
  // "" or why a file cannot be written: printed before anything is trained.
  [[nodiscard]] const std::string& error() const { return error_; }
  void add(const StepLine& line);
  // "" or why a file could not be written.
  [[nodiscard]] std::string finish();

 private:
  using Clock = std::chrono::steady_clock;
  void keep_up_to(uint64_t step);
  void show(const StepLine& line, bool last);

  std::string json_name_;
  std::string svg_name_;
  uint64_t last_step_;
  std::string error_;
  std::ofstream json_;
  std::ofstream svg_;  // open until the curve is there: who reads a pipe waits for it
  std::vector<StepLine> lines_;
  bool terminal_;
  Clock::time_point drawn_{};
};

// The curve of the loss as a picture, smoothed over some steps and as it was.
[[nodiscard]] std::string curve_svg(const std::vector<StepLine>& lines);

}  // namespace paro::gpt
