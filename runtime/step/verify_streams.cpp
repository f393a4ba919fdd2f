#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "step/accesses.hpp"
#include "step/stream_trace.hpp"
#include "step/streams.hpp"

namespace paro {
namespace {

ho::Status wrong(const StepPlan& plan, const std::string& what) {
  return {ho::StatusCode::kInternal,
          "step plan " + letters(plan.shape.strategy) + " on streams: " + what};
}

std::string name(const StepPlan& plan, ActionId id) {
  return "action " + std::to_string(id.value()) + " (" + to_string(plan, plan.actions[id.at()]) +
         ")";
}

// Lists that fit the plan: what the rest relies on.
class Form {
 public:
  Form(const StepPlan& plan, const StepStreams& streams) : plan_(plan), streams_(streams) {}

  [[nodiscard]] ho::Status check() const {
    if (streams_.actions.size() != plan_.actions.size()) {
      return wrong(plan_,
                   std::to_string(streams_.actions.size()) + " actions of a plan of " +
                       std::to_string(plan_.actions.size()));
    }
    HORING_TRY(check_events());
    for (ActionId id; id.at() < plan_.actions.size(); ++id) {
      HORING_TRY(check_waits(id));
    }
    return check_launches();
  }

 private:
  [[nodiscard]] ho::Status check_events() const {
    std::vector<bool> taken(streams_.event_count, false);
    for (ActionId id; id.at() < plan_.actions.size(); ++id) {
      const auto& event = streams_.actions[id.at()].event;
      if (event && (*event >= taken.size() || taken[*event])) {
        return wrong(plan_,
                     name(plan_, id) + " records event " + std::to_string(*event) +
                         ", which is another action's or beyond their number");
      }
      if (event) {
        taken[*event] = true;
      }
    }
    return {};
  }

  [[nodiscard]] ho::Status check_waits(ActionId id) const {
    for (const ActionId earlier : streams_.actions[id.at()].waits) {
      if (earlier.at() >= plan_.actions.size() || !streams_.actions[earlier.at()].event) {
        return wrong(plan_,
                     name(plan_, id) + " waits for action " + std::to_string(earlier.value()) +
                         ", which records no event");
      }
      if (plan_.actions[earlier.at()].track == plan_.actions[id.at()].track) {
        return wrong(plan_,
                     name(plan_, id) + " waits for " + name(plan_, earlier) +
                         ", which is on its own stream");
      }
    }
    return {};
  }

  [[nodiscard]] ho::Status check_launches() const {
    std::vector<uint32_t> times(plan_.actions.size(), 0);
    bool agreed = false;
    for (const Launch& launch : streams_.launches) {
      if (launch.action.at() >= times.size()) {
        return wrong(plan_, "there is no action " + std::to_string(launch.action.value()));
      }
      const Action& action = plan_.actions[launch.action.at()];
      if (launch.previous && action.track != Track::kSyncs) {
        return wrong(plan_, name(plan_, launch.action) + " is launched in the next step");
      }
      agreed = agreed || action.act == Act::kAgree;
      if (agreed && (action.act == Act::kForward || action.act == Act::kBackward)) {
        return wrong(plan_, name(plan_, launch.action) + " is launched after the agreement");
      }
      ++times[launch.action.at()];
    }
    const auto odd = std::find_if(times.begin(), times.end(), [](uint32_t n) { return n != 1; });
    return odd == times.end()
               ? ho::Status()
               : wrong(plan_,
                       name(plan_, ActionId(static_cast<size_t>(odd - times.begin()))) +
                           " is launched " + std::to_string(*odd) + " times");
  }

  const StepPlan& plan_;
  const StepStreams& streams_;
};

// What runs before what, as far as the streams see to it.
class TraceRun {
 public:
  explicit TraceRun(const StreamTrace& trace)
      : plan_(trace.plan()), trace_(trace.launched()), accesses_(accesses_of(plan_)) {
    last_.fill(kNone);
  }

  [[nodiscard]] ho::Status check() {
    for (size_t number = 0; number < trace_.size(); ++number) {
      HORING_TRY(launch(number));
    }
    return {};
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;
  // By track: so many of its launches have ended.
  using Ended = std::array<size_t, kTrackCount>;
  struct Users {
    size_t writer = kNone;
    std::vector<size_t> readers{};  // since
  };

  [[nodiscard]] size_t track_of(size_t number) const {
    return static_cast<size_t>(plan_.actions[trace_[number].action.at()].track);
  }
  [[nodiscard]] bool is_earlier(size_t one, size_t other) const {
    return std::pair(trace_[one].step, trace_[one].action) <
           std::pair(trace_[other].step, trace_[other].action);
  }
  static void take(Ended& ended, const Ended& more) {
    for (size_t track = 0; track < kTrackCount; ++track) {
      ended[track] = std::max(ended[track], more[track]);
    }
  }

  [[nodiscard]] ho::Status launch(size_t number) {
    const size_t track = track_of(number);
    if (trace_[number].joined) {
      streams_.fill(launches_);
    }
    Ended& ended = streams_[track];
    for (const size_t earlier : trace_[number].waits) {
      take(ended, ended_with_[earlier]);
    }
    if (last_[track] != kNone && !is_earlier(last_[track], number)) {
      return wrong(plan_,
                   name(last_[track]) + " is launched before " + name(number) +
                       ", which is before it in the plan");
    }
    last_[track] = number;
    for (const Access& access : accesses_[trace_[number].action.at()]) {
      HORING_TRY(use(number, access, ended));
    }
    index_.push_back(launches_[track]++);
    ended[track] = launches_[track];
    ended_with_.push_back(ended);
    return {};
  }

  [[nodiscard]] ho::Status use(size_t number, const Access& access, const Ended& ended) {
    Users& users = users_[access.buffer];
    HORING_TRY(come_after(number, users.writer, ended));
    if (!access.writes) {
      users.readers.push_back(number);
      return {};
    }
    for (const size_t reader : users.readers) {
      HORING_TRY(come_after(number, reader, ended));
    }
    users = {number};
    return {};
  }

  [[nodiscard]] ho::Status come_after(size_t number, size_t earlier, const Ended& ended) const {
    if (earlier == kNone || earlier == number) {
      return {};
    }
    if (ended[track_of(earlier)] <= index_[earlier]) {
      return wrong(
          plan_,
          "nothing orders " + name(earlier) + " and " + name(number) + ", which use one buffer");
    }
    return is_earlier(earlier, number)
               ? ho::Status()
               : wrong(plan_,
                       name(earlier) + " runs before " + name(number) +
                           ", which uses the same buffer before it in the plan");
  }

  [[nodiscard]] std::string name(size_t number) const {
    return paro::name(plan_, trace_[number].action) + " of step " +
           std::to_string(trace_[number].step + 1);
  }

  const StepPlan& plan_;
  const std::vector<Launched>& trace_;
  std::vector<std::vector<Access>> accesses_;
  std::vector<size_t> index_;  // by launch: on its track
  Ended launches_{};
  std::array<Ended, kTrackCount> streams_{};
  std::vector<Ended> ended_with_;  // by launch: when it has ended
  std::array<size_t, kTrackCount> last_{};
  std::map<Buffer, Users> users_;
};

// A step that is whole, one of so many micro-batches, or dropped, and two whole ones.
ho::Status check_end(const StepPlan& plan,
                     const StepStreams& streams,
                     uint32_t micro_batches,
                     bool dropped) {
  StreamTrace trace(plan, streams);
  trace.add_step();
  dropped ? trace.add_dropped(micro_batches) : trace.add_step_of(micro_batches);
  trace.add_step();
  return TraceRun(trace).check();
}

ho::Status check_pause(const StepPlan& plan, const StepStreams& streams) {
  StreamTrace trace(plan, streams);
  trace.add_step();
  trace.add_rest();
  trace.add_step();
  return TraceRun(trace).check();
}

}  // namespace

ho::Status verify_launches(const StepPlan& plan, const std::vector<StepStreams>& by_rank) {
  const auto launch_at = [&](size_t rank, size_t at) {
    const auto& launches = by_rank[rank].launches;
    return "rank " + std::to_string(rank) + " launches " +
           (at < launches.size() ? name(plan, launches[at].action) : "nothing more") +
           (at < launches.size() && launches[at].previous ? " of the step before" : "");
  };
  for (size_t rank = 1; rank < by_rank.size(); ++rank) {
    const auto& first = by_rank[0].launches;
    const auto& other = by_rank[rank].launches;
    const auto differ = std::mismatch(first.begin(), first.end(), other.begin(), other.end()).first;
    const auto at = static_cast<size_t>(differ - first.begin());
    if (at < std::max(first.size(), other.size())) {
      return wrong(plan,
                   launch_at(0, at) + " where " + launch_at(rank, at) +
                       ": they could wait for each other for ever");
    }
  }
  return {};
}

ho::Status verify_streams(const StepPlan& plan, const StepStreams& streams) {
  HORING_TRY(Form(plan, streams).check());
  HORING_TRY(check_end(plan, streams, plan.shape.micro_batches, false));
  HORING_TRY(check_pause(plan, streams));
  // Micro-batches in the middle of a step are like one another.
  const uint32_t last = plan.shape.micro_batches;
  for (uint32_t k = 1; k <= last; k += k == 2 && last > 4 ? last - 3 : 1) {
    HORING_TRY(check_end(plan, streams, k, true));
    HORING_TRY(check_end(plan, streams, k, false));
  }
  return {};
}

}  // namespace paro
