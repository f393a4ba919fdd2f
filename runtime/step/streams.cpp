#include "step/streams.hpp"

#include <algorithm>
#include <array>

#include "step/data_order.hpp"
#include "step/launches.hpp"

namespace paro {
namespace {

// The waits that data asks for, without those that a stream has come after anyway.
class Waits {
 public:
  explicit Waits(const DataOrder& order) : order_(order) {
    std::array<size_t, kTrackCount> count{};
    for (StepActionNumber at = 0; at < order.size(); ++at) {
      index_.push_back(count[order.track_of(at)]++);
      needed_.push_back(take(at));
    }
  }

  [[nodiscard]] const std::vector<std::vector<StepActionNumber>>& all() const { return needed_; }

 private:
  // By track: so many of its actions have ended.
  using Ended = std::array<size_t, kTrackCount>;

  [[nodiscard]] bool is_over(StepActionNumber at, const Ended& ended) const {
    return ended[order_.track_of(at)] > index_[at];
  }

  std::vector<StepActionNumber> take(StepActionNumber at) {
    Ended& ended = streams_[order_.track_of(at)];
    std::vector<StepActionNumber> wanted;
    for (const StepActionNumber earlier : order_.before(at)) {
      if (earlier != kNoAction && !is_over(earlier, ended)) {
        wanted.push_back(earlier);
      }
    }
    std::vector<StepActionNumber> waits;
    std::copy_if(wanted.begin(), wanted.end(), std::back_inserter(waits), [&](auto one) {
      return std::none_of(wanted.begin(), wanted.end(), [&](auto other) {
        return other != one && is_over(one, ended_with_[other]);
      });
    });
    for (const StepActionNumber earlier : waits) {
      for (size_t t = 0; t < kTrackCount; ++t) {
        ended[t] = std::max(ended[t], ended_with_[earlier][t]);
      }
    }
    ended[order_.track_of(at)] = index_[at] + 1;
    ended_with_.push_back(ended);
    return waits;
  }

  const DataOrder& order_;
  std::vector<size_t> index_;  // of an action on its track
  std::array<Ended, kTrackCount> streams_{};
  std::vector<Ended> ended_with_;  // by action: when it has ended
  std::vector<std::vector<StepActionNumber>> needed_;
};

}  // namespace

StepStreams streams_of(const StepPlan& plan, const std::vector<ActionCost>& costs) {
  const size_t count = plan.actions.size();
  const DataOrder order(plan);
  const Waits waits(order);
  StepStreams streams;
  streams.actions.resize(count);
  for (size_t id = 0; id < count; ++id) {
    for (const StepActionNumber earlier : waits.all()[count + id]) {
      streams.actions[id].waits.emplace_back(earlier % count);
      std::optional<uint32_t>& event = streams.actions[earlier % count].event;
      if (!event) {
        event = streams.event_count++;
      }
    }
  }
  streams.launches = launches_of(plan, order, waits.all(), costs);
  return streams;
}

StepStreams streams_of(const StepPlan& plan) {
  return streams_of(plan, assumed_costs(plan));
}

}  // namespace paro
