// What rank 0 tells about the steps: a line for people, lines of JSON, a curve.
#pragma once

#include <chrono>
#include <cstdint>
#include <fstream>
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
  // Files that are "" are not written. `appends`: go on after what is in them.
  Progress(std::string json, std::string svg, uint64_t last_step, bool appends);
  // "" or why a file cannot be written: said before anything is trained.
  [[nodiscard]] const std::string& error() const { return error_; }
  void add(const StepLine& line);
  // "" or why a file could not be written.
  [[nodiscard]] std::string finish();

 private:
  using Clock = std::chrono::steady_clock;
  void show(const StepLine& line, bool last);

  std::string json_name_;
  std::string svg_name_;
  uint64_t last_step_;
  std::string error_;
  std::ofstream json_;
  std::vector<StepLine> lines_;
  bool terminal_;
  Clock::time_point shown_{};
};

// The curve of the loss as a picture, smoothed over some steps and as it was.
[[nodiscard]] std::string curve_svg(const std::vector<StepLine>& lines);

}  // namespace paro::gpt
