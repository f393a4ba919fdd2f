#include "step/timeline.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace paro {

Timeline::Timeline(const StepPlan& plan, const std::vector<ActionCost>& costs, uint32_t further)
    : plan_(plan), costs_(costs), count_(plan.actions.size()), further_(further) {
  for (size_t id = 0; id < count_; ++id) {
    const Action& action = plan_.actions[id];
    const auto track = static_cast<size_t>(action.track);
    queues_[track].push_back(id);
    middle_[track] += action.micro_batch == kMiddle ? 1 : 0;
  }
  ended_.assign(kSteps * count_, false);
}

void Timeline::launch_in(const std::vector<size_t>& order, Begins begins) {
  std::copy_if(order.begin(), order.end(), std::back_inserter(launches_), [&](size_t step_action) {
    return is_collective(step_action);
  });
  begins_ = begins;
}

std::array<double, Timeline::kSteps> Timeline::run() {
  start_what_can();
  while (advance()) {
    start_what_can();
  }
  return compute_ended_;
}

double Timeline::compute_s() const {
  double sum = 0;
  for (const size_t id : queues_[static_cast<size_t>(Track::kCompute)]) {
    const bool repeats = plan_.actions[id].micro_batch == kMiddle;
    sum += costs_[id].seconds * (repeats ? 1 + double{1} * further_ : 1);
  }
  return sum;
}

bool Timeline::is_collective(size_t step_action) const {
  return plan_.actions[step_action % count_].track != Track::kCompute;
}

bool Timeline::has_waited(size_t step_action) const {
  if (!waits_.empty()) {
    const auto& waits = waits_[step_action];
    return std::all_of(waits.begin(), waits.end(), [&](size_t one) { return ended_[one]; });
  }
  const Action& action = plan_.actions[step_action % count_];
  const size_t step = step_action / count_;
  const auto over = [&](size_t at, const std::vector<ActionId>& ids) {
    return std::all_of(
        ids.begin(), ids.end(), [&](ActionId id) { return ended_[at * count_ + id.at()]; });
  };
  return over(step, action.after) && (step == 0 || over(step - 1, action.after_previous));
}

bool Timeline::may_begin(size_t step_action) const {
  if (begins_ == Begins::kWhenReady || !is_collective(step_action)) {
    return true;
  }
  const bool alone = std::none_of(tracks_.begin(), tracks_.end(), [&](const Progress& track) {
    return track.running && is_collective(*track.running);
  });
  return launched_ < launches_.size() && launches_[launched_] == step_action &&
         (begins_ == Begins::kInOrder || alone);
}

void Timeline::start_what_can() {
  // A collective may be the one that others, of tracks before, must not begin before.
  for (bool started = true; std::exchange(started, false);) {
    for (size_t c = 0; c < kTrackCount; ++c) {
      started = start(tracks_[c], queues_[c]) || started;
    }
  }
}

bool Timeline::start(Progress& track, const std::vector<size_t>& queue) {
  if (track.running || track.next == queue.size() * kSteps) {
    return false;
  }
  const size_t step_action = track.next / queue.size() * count_ + queue[track.next % queue.size()];
  if (!has_waited(step_action) || !may_begin(step_action)) {
    return false;
  }
  ++track.next;
  track.running = step_action;
  track.left_s = costs_[step_action % count_].seconds;
  launched_ += is_collective(step_action) ? 1U : 0U;
  begun_.push_back(step_action);
  return true;
}

double Timeline::rate(const Progress& track) const {
  double rate = 1;
  for (const ActionCost::Link link : {ActionCost::Link::kInter, ActionCost::Link::kIntra}) {
    if (costs_[*track.running % count_].held(link) == 0) {
      continue;
    }
    double held = 0;
    for (const Progress& each : tracks_) {
      held += each.running ? costs_[*each.running % count_].held(link) : 0;
    }
    rate = std::min(rate, 1 / std::max(held, 1.0));
  }
  return rate;
}

bool Timeline::advance() {
  double shortest = std::numeric_limits<double>::infinity();
  std::array<double, kTrackCount> rates{};
  for (size_t c = 0; c < kTrackCount; ++c) {
    if (tracks_[c].running) {
      rates[c] = rate(tracks_[c]);
      shortest = std::min(shortest, tracks_[c].left_s / rates[c]);
    }
  }
  if (shortest == std::numeric_limits<double>::infinity()) {
    return false;
  }
  now_s_ += shortest;
  for (size_t c = 0; c < kTrackCount; ++c) {
    Progress& track = tracks_[c];
    if (!track.running) {
      continue;
    }
    const bool over = track.left_s / rates[c] <= shortest;
    track.left_s -= shortest * rates[c];
    if (over) {
      end(*track.running);
      track.running.reset();
    }
  }
  if (passed_) {
    pass(*passed_ / count_, plan_.actions[*passed_ % count_].micro_batch);
    passed_.reset();
  }
  return true;
}

void Timeline::end(size_t step_action) {
  ended_[step_action] = true;
  const Action& action = plan_.actions[step_action % count_];
  if (action.track != Track::kCompute) {
    return;
  }
  compute_ended_[step_action / count_] = now_s_;
  const bool last_of_micro_batch = action.act == Act::kBackward && action.unit == 0;
  if (last_of_micro_batch && further_ > 0 && action.micro_batch + 1 < plan_.shape.micro_batches) {
    passed_ = step_action;
  }
}

Timeline::Position Timeline::position_after(size_t step, uint32_t micro_batch) const {
  Position position;
  for (size_t c = 0; c < kTrackCount; ++c) {
    const size_t origin = step * queues_[c].size() + (micro_batch + size_t{1}) * middle_[c];
    position.next[c] = static_cast<int64_t>(tracks_[c].next) - static_cast<int64_t>(origin);
    position.left_s[c] = tracks_[c].running ? tracks_[c].left_s : 0;
  }
  position.now_s = now_s_;
  return position;
}

bool Timeline::is_same(const Position& a, const Position& b, double took_s) {
  constexpr double kRounding = 1e-9;
  bool same = a.next == b.next;
  for (size_t c = 0; c < kTrackCount; ++c) {
    same = same && std::abs(a.left_s[c] - b.left_s[c]) <= kRounding * took_s;
  }
  return same;
}

void Timeline::pass(size_t step, uint32_t micro_batch) {
  const Position position = position_after(step, micro_batch);
  if (micro_batch == 0) {
    repeated_ = false;
  } else if (!repeated_) {
    const double took_s = position.now_s - before_.now_s;
    const bool same = is_same(position, before_, took_s);
    const bool last_to_repeat = micro_batch + 2 == plan_.shape.micro_batches;
    if (same || last_to_repeat) {
      now_s_ += took_s * further_;
      repeated_ = true;
      steady_ = steady_ && same;
    }
  }
  before_ = position;
}

}  // namespace paro
