#include "run/scheduler.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <random>

#include "catch.hpp"

using namespace paro;

namespace {

constexpr std::array kCollectives{Track::kReductions, Track::kSyncs, Track::kGathers};

StepPlan plan_of(const char* triple, uint32_t micro_batches) {
  return build_step_plan({parse_strategy(triple).value(),
                          Scope::kReplicated,
                          {{"embedding", 64, 0}, {"block", 97, 0}, {"head", 48, 0}},
                          micro_batches,
                          1})
      .value();
}

// The framework and the communicators of one rank: does what may be done, in any order.
class Rank {
 public:
  explicit Rank(StepPlan plan, uint32_t seed = 1, bool packs_one = false)
      : scheduler(std::move(plan), packs_one), random_(seed) {}

  Scheduler scheduler;
  std::array<std::vector<StepAction>, kTrackCount> begun;  // by track

  // Starts all that may start.
  void start() {
    for (const Track track : kCollectives) {
      while (const auto step_action = scheduler.start(track)) {
        CHECK(may_begin(*step_action));
        begun[static_cast<size_t>(track)].push_back(*step_action);
        running_[static_cast<size_t>(track)].push_back(*step_action);
      }
    }
  }
  // Ends the oldest of some track; false where nothing runs.
  bool end_one() {
    const size_t first = random_();
    for (size_t i = 0; i < kTrackCount; ++i) {
      auto& running = running_[(first + i) % kTrackCount];
      if (!running.empty()) {
        CHECK_FALSE(scheduler.ended(running.front()));
        scheduler.end(running.front());
        CHECK(scheduler.ended(running.front()));
        ended_.push_back(running.front());
        running.pop_front();
        return true;
      }
    }
    return false;
  }
  // The next computation, and what it waits for.
  void compute() {
    const StepAction step_action = scheduler.computation();
    while (scheduler.collective_before(step_action)) {
      start();
      REQUIRE((!scheduler.collective_before(step_action) || end_one()));
    }
    REQUIRE_FALSE(scheduler.computation_before(step_action));
    CHECK(may_begin(step_action));
    ended_.push_back(step_action);
    begun[static_cast<size_t>(Track::kCompute)].push_back(step_action);
    scheduler.end_computation();
    start();
  }
  // As a framework and step() do.
  void step(uint32_t micro_batches) {
    scheduler.begin_step();
    const size_t computations = size_t{2} * scheduler.plan().shape.units.size() * micro_batches;
    while (scheduler.computations_over() < computations) {
      compute();
    }
    if (micro_batches < scheduler.plan().shape.micro_batches) {
      drain();
      scheduler.end_after(micro_batches);
      micro_batches_ = micro_batches;
    }
    scheduler.let_agree();
    while (scheduler.computation().step == scheduler.step()) {
      compute();
    }
    scheduler.end_step();
  }
  void drain() {
    for (start(); end_one(); start()) {
    }
  }

 private:
  // By what has ended here, and not by what the scheduler says.
  [[nodiscard]] bool may_begin(const StepAction& step_action) const {
    const auto over = [&](StepIndex step, const std::vector<ActionId>& ids) {
      return std::all_of(ids.begin(), ids.end(), [&](ActionId id) {
        const Action& action = scheduler.plan().actions[id.at()];
        const bool left_out = action.micro_batch >= micro_batches_ &&
                              (action.phase == Phase::kForward || action.phase == Phase::kBackward);
        return left_out ||
               std::find(ended_.begin(), ended_.end(), StepAction{step, id}) != ended_.end();
      });
    };
    const Action& action = scheduler.action(step_action);
    return over(step_action.step, action.after) &&
           (step_action.step == StepIndex{} ||
            over(previous(step_action.step), action.after_previous));
  }

  uint32_t micro_batches_ = UINT32_MAX;  // the fewest of a step so far
  std::vector<StepAction> ended_;
  std::array<std::deque<StepAction>, kTrackCount> running_;
  std::mt19937 random_;
};

std::vector<ActionId> actions_of(const StepPlan& plan, Track track) {
  std::vector<ActionId> ids;
  for (ActionId id; id.at() < plan.actions.size(); ++id) {
    if (plan.actions[id.at()].track == track) {
      ids.push_back(id);
    }
  }
  return ids;
}

StepAction first_of(const Scheduler& scheduler, Act act, StepIndex step = {}) {
  ActionId id;
  while (scheduler.plan().actions[id.at()].act != act) {
    ++id;
  }
  return {step, id};
}

}  // namespace

TEST_CASE("each track starts the plan's actions in their order, step after step") {
  for (const char* triple : {"NNN", "NIG", "IIG", "GGG"}) {
    for (const uint32_t seed : {1U, 2U, 3U}) {
      INFO(triple << ", seed " << seed);
      Rank rank(plan_of(triple, 2), seed);
      for (int step = 0; step < 3; ++step) {
        rank.step(2);
      }
      rank.drain();  // sync-p of the last step
      for (size_t c = 0; c < kTrackCount; ++c) {
        const auto ids = actions_of(rank.scheduler.plan(), static_cast<Track>(c));
        std::vector<StepAction> expected;
        for (uint64_t step = 0; step < 3; ++step) {
          for (const ActionId id : ids) {
            expected.push_back({{step}, id});
          }
        }
        CHECK(rank.begun[c] == expected);
      }
    }
  }
}

TEST_CASE("what a step before must end first is waited for") {
  Rank rank(plan_of("IIG", 1));
  rank.step(1);
  Scheduler& scheduler = rank.scheduler;
  const auto gather = scheduler.next(Track::kGathers);
  REQUIRE(gather.has_value());
  CHECK(gather->step == StepIndex{1});
  // Not before a hook of its step, whatever has ended.
  rank.drain();
  CHECK(scheduler.next(Track::kGathers) == gather);
  scheduler.begin_step();
  rank.start();
  CHECK(scheduler.next(Track::kGathers) != gather);

  // With sync-p under way it waits for that.
  Rank other(plan_of("IIG", 1));
  other.step(1);
  const auto sync = other.scheduler.collective_before(*gather);
  REQUIRE(sync.has_value());
  CHECK(sync->step == StepIndex{0});
  CHECK(other.scheduler.action(*sync).phase == Phase::kSyncP);
  other.scheduler.begin_step();
  CHECK_FALSE(other.scheduler.start(Track::kGathers));
}

TEST_CASE("what blocks is told by its name") {
  Rank rank(plan_of("IIG", 1));
  Scheduler& scheduler = rank.scheduler;
  const auto reduction = scheduler.next(Track::kReductions);
  REQUIRE(reduction.has_value());
  CHECK_FALSE(scheduler.collective_before(*reduction));
  const auto blocker = scheduler.computation_before(*reduction);
  REQUIRE(blocker.has_value());
  CHECK(scheduler.to_string(*blocker) ==
        "step 1 of IIG, backward, unit 2 (head), backward of micro-batch 0");
  const StepAction forward = scheduler.computation();
  const auto gather = scheduler.collective_before(forward);
  REQUIRE(gather.has_value());
  CHECK(scheduler.to_string(*gather) ==
        "step 1 of IIG, all_gather parameters I->N intra, unit 0 (embedding), forward of "
        "micro-batch 0");
  scheduler.begin_step();
  rank.compute();
  CHECK_FALSE(scheduler.collective_before(forward));
}

TEST_CASE("the agreement waits until the framework says that the step ends") {
  Rank rank(plan_of("GGG", 1));
  Scheduler& scheduler = rank.scheduler;
  scheduler.begin_step();
  while (scheduler.computations_over() < 6) {
    rank.compute();
  }
  rank.drain();
  const StepAction agree = first_of(scheduler, Act::kAgree);
  CHECK(scheduler.next(Track::kReductions) == agree);
  CHECK_FALSE(scheduler.start(Track::kReductions));
  scheduler.let_agree();
  CHECK(scheduler.start(Track::kReductions) == agree);
  scheduler.end(agree);
  CHECK_FALSE(scheduler.collective_before(scheduler.computation()));
}

TEST_CASE("a step that ends early leaves out what its other micro-batches would have done") {
  for (const char* triple : {"NNN", "NIG", "IIG", "GGG"}) {
    INFO(triple);
    Rank rank(plan_of(triple, 3));
    rank.step(1);
    CHECK(rank.scheduler.step() == StepIndex{1});
    CHECK(rank.scheduler.micro_batches() == 3);
    rank.drain();
    for (const auto& track : rank.begun) {
      for (const StepAction& step_action : track) {
        const Action& action = rank.scheduler.action(step_action);
        // What is gathered ahead was begun before anybody knew.
        CHECK((action.micro_batch == 0 || action.track == Track::kGathers ||
               action.phase == Phase::kSyncG || action.phase == Phase::kUpdate ||
               action.phase == Phase::kSyncP));
      }
    }
    rank.step(3);
    CHECK(rank.scheduler.step() == StepIndex{2});
  }
}

TEST_CASE("a scheduler goes on from any step") {
  Rank rank(plan_of("IIG", 2));
  rank.step(2);
  rank.scheduler.begin_step();
  Scheduler other(plan_of("IIG", 2));
  other.restart({41});
  CHECK_FALSE(other.in_step());
  CHECK(other.computation() == StepAction{{41}, first_of(other, Act::kForward).action});
  CHECK(other.ended({{40}, first_of(other, Act::kAgree).action}));
  CHECK_FALSE(other.ended({{41}, first_of(other, Act::kAgree).action}));
  CHECK(name(other.step()) == "step 42");
  // A cursor past the last action is at the next step's first.
  const size_t all = 2 * 3 * 2 + 3;
  for (size_t i = 0; i < all; ++i) {
    CHECK(other.computations_over() == i);
    other.end_computation();
  }
  CHECK(other.computations_over() == all);
  CHECK(other.computation().step == StepIndex{42});
}

TEST_CASE("where groups are unequal a track reorders one unit at a time") {
  for (const bool packs_one : {false, true}) {
    CAPTURE(packs_one);
    Rank rank(plan_of("GGG", 1), 1, packs_one);
    rank.scheduler.begin_step();
    rank.start();
    CHECK(rank.begun[static_cast<size_t>(Track::kGathers)].size() == (packs_one ? 1 : 2));
  }
}
