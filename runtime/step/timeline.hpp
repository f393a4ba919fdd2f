// Steps of one plan in virtual time: each track runs its actions one after the other. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "step/action_cost.hpp"

namespace paro {

// When collectives of different tracks may begin: when they have waited for what they wait for; or
// besides in the order of their launches; or besides when no other is under way.
enum class Begins : uint8_t { kWhenReady, kInOrder, kOneAtATime };

// A step action is an action of one of the steps: its number there, after those of the steps
// before.
class Timeline {
 public:
  static constexpr size_t kSteps = 4;

  // `further` micro-batches: see critical_path().
  Timeline(const StepPlan& plan, const std::vector<ActionCost>& costs, uint32_t further = 0);

  // Instead of what the plan says, by step action: those before.
  void wait_for(std::vector<std::vector<size_t>> waits) { waits_ = std::move(waits); }
  // Step actions in the order of their launches, as far as they are collectives.
  void launch_in(const std::vector<size_t>& order, Begins begins);

  // Seconds at which the last computation of each step ended.
  [[nodiscard]] std::array<double, kSteps> run();
  // After it: step actions as they began.
  [[nodiscard]] const std::vector<size_t>& begun() const { return begun_; }
  // Of a step.
  [[nodiscard]] double compute_s() const;
  [[nodiscard]] bool steady() const { return steady_; }

 private:
  struct Progress {
    size_t next = 0;                // place on the track, over all steps
    std::optional<size_t> running;  // step action
    double left_s = 0;
  };

  // Of every track, as seen from the end of a micro-batch.
  struct Position {
    std::array<int64_t, kTrackCount> next{};
    std::array<double, kTrackCount> left_s{};
    double now_s = 0;
  };

  [[nodiscard]] bool is_collective(size_t step_action) const;
  [[nodiscard]] bool has_waited(size_t step_action) const;
  [[nodiscard]] bool may_begin(size_t step_action) const;
  void start_what_can();
  bool start(Progress& track, const std::vector<size_t>& queue);
  [[nodiscard]] double rate(const Progress& track) const;
  // To the next end of an action; false when nothing runs.
  bool advance();
  void end(size_t step_action);
  [[nodiscard]] Position position_after(size_t step, uint32_t micro_batch) const;
  // But for rounding.
  [[nodiscard]] static bool is_same(const Position& a, const Position& b, double took_s);
  // A micro-batch has been computed, and not the last one.
  void pass(size_t step, uint32_t micro_batch);

  static constexpr uint32_t kMiddle = 1;  // a micro-batch as all others but the first and the last

  const StepPlan& plan_;
  const std::vector<ActionCost>& costs_;
  size_t count_;
  uint32_t further_;
  std::vector<std::vector<size_t>> waits_;  // none: the plan's
  std::vector<size_t> launches_;
  Begins begins_ = Begins::kWhenReady;
  size_t launched_ = 0;  // of them, how many have begun
  std::vector<size_t> begun_;
  std::array<size_t, kTrackCount> middle_{};  // actions of that micro-batch
  std::optional<size_t> passed_;              // that ended a micro-batch
  Position before_;                           // after the micro-batch before
  bool repeated_ = false;                     // in this step
  bool steady_ = true;
  std::array<std::vector<size_t>, kTrackCount> queues_;
  std::array<Progress, kTrackCount> tracks_;
  std::vector<bool> ended_;
  std::array<double, kSteps> compute_ended_{};
  double now_s_ = 0;
};

}  // namespace paro
