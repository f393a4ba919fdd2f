#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "step/verify.hpp"

namespace paro {
namespace {

// What the library carries out in the order of the calls: of one communicator all-gathers,
// reduce-scatters and the rest each.
using Sequence = std::pair<Domain, Act>;

Sequence sequence_of(const Action& action) {
  return {action.domain, action.act == Act::kAgree ? Act::kAllReduce : action.act};
}

// Which action starts before which on every rank, however fast each of them is, in two steps.
class Starts {
 public:
  explicit Starts(const StepPlan& plan) : plan_(plan), count_(plan.actions.size()) {
    for (size_t step = 0; step < 2; ++step) {
      for (size_t id = 0; id < count_; ++id) {
        relate(step, id);
      }
    }
  }

  [[nodiscard]] ho::Status check() const {
    for (const auto& [sequence, by_channel] : sequences_) {
      HORING_TRY(check(by_channel));
    }
    return {};
  }

 private:
  using ByChannel = std::array<std::vector<size_t>, kChannelCount>;
  struct Node {
    size_t channel = 0;
    size_t place = 0;  // on its channel
    // By channel: as many have started before. A channel starts in order, so they are its first.
    std::array<size_t, kChannelCount> before{};
  };

  void relate(size_t step, size_t id) {
    const Action& action = plan_.actions[id];
    Node node{static_cast<size_t>(action.channel), 0, {}};
    node.place = started_[node.channel].size();
    const auto follows = [&](size_t earlier) {
      const Node& start = nodes_[earlier];
      for (size_t c = 0; c < kChannelCount; ++c) {
        node.before[c] = std::max(node.before[c], start.before[c]);
      }
      node.before[start.channel] = std::max(node.before[start.channel], start.place + 1);
    };
    for (const ActionId earlier : action.after) {
      follows(step * count_ + earlier.at());
    }
    if (step > 0) {
      for (const ActionId earlier : action.after_previous) {
        follows((step - 1) * count_ + earlier.at());
      }
    }
    if (node.place > 0) {
      follows(started_[node.channel].back());
    }
    const size_t number = nodes_.size();
    if (is_collective(action.act)) {
      sequences_[sequence_of(action)][node.channel].push_back(number);
    }
    started_[node.channel].push_back(number);
    nodes_.push_back(node);
  }

  [[nodiscard]] ho::Status check(const ByChannel& by_channel) const {
    for (const std::vector<size_t>& ones : by_channel) {
      for (const std::vector<size_t>& others : by_channel) {
        if (&others != &ones) {
          HORING_TRY(check(ones, others));
        }
      }
    }
    return {};
  }

  // Two channels' actions of one sequence, each in its order.
  [[nodiscard]] ho::Status check(const std::vector<size_t>& ones,
                                 const std::vector<size_t>& others) const {
    for (const size_t one : ones) {
      // The first of the others that need not start before it has to start after it.
      const auto later = std::partition_point(others.begin(), others.end(), [&](size_t other) {
        return nodes_[other].place < nodes_[one].before[nodes_[other].channel];
      });
      if (later != others.end() &&
          nodes_[*later].before[nodes_[one].channel] <= nodes_[one].place) {
        return {ho::StatusCode::kInternal,
                "step plan " + letters(plan_.shape.strategy) + ": ranks could start " + name(one) +
                    " and " + name(*later) +
                    " in different orders, which one communicator takes in one order only"};
      }
    }
    return {};
  }

  [[nodiscard]] std::string name(size_t node) const {
    return "action " + std::to_string(node % count_) + " of step " +
           std::to_string(node / count_ + 1) + " (" +
           describe(plan_, plan_.actions[node % count_]) + ")";
  }

  const StepPlan& plan_;
  size_t count_;
  std::vector<Node> nodes_;
  ByChannel started_;
  std::map<Sequence, ByChannel> sequences_;
};

}  // namespace

ho::Status verify_sequences(const StepPlan& plan) {
  return Starts(plan).check();
}

}  // namespace paro
