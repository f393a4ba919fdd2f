#include "step/verify.hpp"

#include <algorithm>
#include <functional>

#include "catch.hpp"
#include "has.hpp"
#include "shapes.hpp"

using namespace paro;
using paro::test::groups_of;
using paro::test::step_shape;

namespace {

ho::Status verified(const StepShape& shape, const char* groups, uint64_t alignment) {
  const auto plan = build_step_plan(shape);
  const auto layouts = lay_out(shape.units, groups_of(groups), alignment);
  if (!plan.ok() || !layouts.ok()) {
    return plan.ok() ? layouts.status() : plan.status();
  }
  return verify(*plan, *layouts, groups_of(groups));
}

// The message of verify() on a plan that `change` has spoilt; "" if it was let through.
std::string spoilt(const char* triple,
                   const char* groups,
                   const std::function<void(StepPlan&)>& change,
                   uint64_t bucket_elements = 0) {
  StepShape shape = step_shape(parse_strategy(triple).value(), 2);
  shape.bucket_elements = bucket_elements;
  StepPlan plan = build_step_plan(shape).value();
  change(plan);
  const auto layouts = lay_out(shape.units, groups_of(groups), 1);
  return verify(plan, *layouts, groups_of(groups)).message();
}

Action& first(StepPlan& plan, const std::function<bool(const Action&)>& wanted) {
  return *std::find_if(plan.actions.begin(), plan.actions.end(), wanted);
}

// Agreeing once more moves no state.
void leave_out(Action& action) {
  action.act = Act::kAgree;
}

}  // namespace

TEST_CASE("every strategy on every shape is right") {
  for (const Strategy& strategy : all_strategies()) {
    for (const char* groups : paro::test::kGroups) {
      for (const uint32_t micro_batches : {1U, 3U}) {
        for (const uint32_t prefetch : {0U, 1U, 2U, 20U}) {
          const auto frozen = static_cast<Scope>((micro_batches + prefetch) % 3);
          INFO(letters(strategy) << " on " << groups << ", " << micro_batches
                                 << " micro-batches, prefetch " << prefetch);
          const ho::Status status =
              verified(step_shape(strategy, micro_batches, prefetch, frozen), groups, 4);
          INFO(status.message());
          CHECK(status.ok());
        }
      }
    }
  }
}

TEST_CASE("every strategy is right with units that share parameters") {
  for (const Strategy& strategy : all_strategies()) {
    for (const char* groups : paro::test::kGroups) {
      for (const uint64_t elements : {0U, 113U, 10000U}) {
        INFO(letters(strategy) << " on " << groups << ", buckets of " << elements);
        StepShape shape = step_shape(strategy, 2, 2, strategy.parameters);
        shape.units.insert(shape.units.begin() + 3, {"middle", 0, 0, 0});
        shape.units.push_back({"again", 0, 0, 2});  // of a unit with frozen parameters too
        shape.units.push_back({"tied", 0, 0, 0});
        shape.bucket_elements = elements;
        const ho::Status status = verified(shape, groups, 4);
        INFO(status.message());
        CHECK(status.ok());
      }
    }
  }
}

TEST_CASE("a shared unit's gradients that do not join, or join twice, are noticed") {
  for (const char* triple : {"IIG", "GGG"}) {
    StepShape shape = step_shape(parse_strategy(triple).value(), 2);
    shape.units.push_back({"tied", 0, 0, 0});
    const auto layouts = lay_out(shape.units, groups_of("2x2"), 1);
    const auto wrong = [&](const std::function<void(StepPlan&)>& change) {
      StepPlan plan = build_step_plan(shape).value();
      change(plan);
      return verify(plan, *layouts, groups_of("2x2")).message();
    };
    const auto shared = [](const Action& action) {
      return action.shared && action.act == Act::kReduceScatter;
    };
    CHECK(
        has(wrong([&](StepPlan& plan) { leave_out(first(plan, shared)); }), "was counted 1 times"));
    CHECK(has(wrong([&](StepPlan& plan) { plan.shape.units.back().shares = 2; }), "is not there"));
    CHECK(wrong([](StepPlan&) {}).empty());
  }
}

TEST_CASE("every strategy is right with buckets") {
  for (const Strategy& strategy : all_strategies()) {
    for (const char* groups : paro::test::kGroups) {
      for (const uint32_t micro_batches : {1U, 3U}) {
        for (const uint64_t elements : {50U, 113U, 150U, 10000U}) {
          INFO(letters(strategy) << " on " << groups << ", " << micro_batches
                                 << " micro-batches, buckets of " << elements);
          StepShape shape = step_shape(strategy, micro_batches);
          shape.bucket_elements = elements;
          const ho::Status status = verified(shape, groups, 4);
          INFO(status.message());
          CHECK(status.ok());
        }
      }
    }
  }
}

TEST_CASE(
    "every strategy is right with one unit, with two micro-batches' gradients under way at once") {
  for (const Strategy& strategy : all_strategies()) {
    INFO(letters(strategy));
    const ho::Status status =
        verified({strategy, Scope::kReplicated, {{"unit", 40, 0}}, 4, 1}, "2x2", 1);
    INFO(status.message());
    CHECK(status.ok());
  }
}

TEST_CASE("a reduction left out is found") {
  const auto message = spoilt("III", "2x2", [](StepPlan& plan) {
    leave_out(first(plan, [](const Action& a) {
      return a.phase == Phase::kSyncG && a.act == Act::kAllReduce;
    }));
  });
  CHECK(has(message, "was counted 0 times"));
}

TEST_CASE("a gradient counted twice is found") {
  // The world's sum instead of the group's: ranks of other groups are in it twice after sync-g.
  const auto message = spoilt("NIG", "2x2", [](StepPlan& plan) {
    Action& reduce = first(plan, [](const Action& a) {
      return a.act == Act::kReduceScatter && a.phase == Phase::kBackward;
    });
    reduce.domain = Domain::kWorld;
  });
  CHECK(has(message, "was counted 2 times"));
}

TEST_CASE("a unit left out of a bucket is found") {
  for (const char* triple : {"NNN", "NIG", "III", "GGG"}) {
    const auto merged = [](StepPlan& plan, const std::function<void(Action&)>& change) {
      change(first(plan, is_merged));
    };
    CHECK(has(
        spoilt(
            triple,
            "2x2",
            [&](StepPlan& plan) { merged(plan, [](Action& action) { action.merged.pop_back(); }); },
            1000),
        "was counted 0 times"));
    CHECK(has(spoilt(
                  triple,
                  "2x2",
                  [&](StepPlan& plan) {
                    merged(plan, [](Action& action) { action.merged.push_back(action.unit); });
                  },
                  1000),
              "unit 5 is in it twice"));
  }
}

TEST_CASE("the order of merged reductions is needed") {
  // Where all of sync-g is in micro-batches, the buffers of their backward passes order it too.
  for (const char* triple : {"NNN", "NNG", "NIG", "III"}) {
    StepShape shape = step_shape(parse_strategy(triple).value(), 3);
    shape.units.clear();
    for (int i = 0; i < 12; ++i) {
      shape.units.push_back({"unit", 8, 0});
    }
    shape.bucket_elements = 16;
    StepPlan plan = build_step_plan(shape).value();
    CHECK(verify_order(plan).ok());
    for (Action& action : plan.actions) {
      if (is_merged(action)) {
        action.after.resize(1);  // the computation, or the collective that the gradients come from
      }
    }
    INFO(triple);
    CHECK(verify_order(plan).message().find("nothing orders") != std::string::npos);
  }
}

TEST_CASE("a sync-p left out is found") {
  const auto message = spoilt("NNG", "2x2", [](StepPlan& plan) {
    leave_out(first(plan, [](const Action& a) { return a.phase == Phase::kSyncP; }));
  });
  CHECK(has(message, "has seen 0 updates instead of 1"));
}

TEST_CASE("a gather among the wrong ranks is found") {
  const auto message = spoilt("GGG", "2x2", [](StepPlan& plan) {
    first(plan, [](const Action& a) { return a.act == Act::kGather; }).domain = Domain::kIntra;
  });
  CHECK(has(message, "no member of the set holds part"));
}

TEST_CASE("an order left out is found") {
  for (const auto& [triple, act] :
       std::vector<std::pair<const char*, Act>>{{"GGG", Act::kForward},
                                                {"IIG", Act::kGather},
                                                {"NIG", Act::kBackward},
                                                {"NIG", Act::kUpdate},
                                                {"GGG", Act::kReduceScatter}}) {
    StepPlan plan = build_step_plan(step_shape(parse_strategy(triple).value(), 2)).value();
    CHECK(verify_order(plan).ok());
    bool found = false;
    for (size_t id = 0; id < plan.actions.size(); ++id) {
      StepPlan changed = plan;
      if (changed.actions[id].act == act && !changed.actions[id].after.empty()) {
        changed.actions[id].after.clear();
        const ho::Status status = verify_order(changed);
        found = found || status.message().find("nothing orders") != std::string::npos;
      }
    }
    INFO(triple << ", " << to_string(act));
    CHECK(found);
  }
}

TEST_CASE("the order across steps is needed") {
  for (const char* triple : {"NNG", "NII", "IIG", "GGG"}) {
    StepPlan plan = build_step_plan(step_shape(parse_strategy(triple).value(), 1)).value();
    for (Action& action : plan.actions) {
      action.after_previous.clear();
    }
    INFO(triple);
    CHECK(verify_order(plan).message().find("nothing orders") != std::string::npos);
  }
}

TEST_CASE("the order of sync-p and the next step's gathers on one communicator is needed") {
  // Where parameters are not split, and what is frozen is split like the optimizer's state.
  const std::vector<std::pair<const char*, Scope>> sharing{{"NNG", Scope::kWorld},
                                                           {"NIG", Scope::kWorld},
                                                           {"NGG", Scope::kWorld},
                                                           {"NNI", Scope::kGroup},
                                                           {"NII", Scope::kGroup}};
  for (const Strategy& strategy : all_strategies()) {
    for (const Scope frozen : {Scope::kReplicated, Scope::kGroup, Scope::kWorld}) {
      INFO(letters(strategy) << ", frozen " << letter(frozen));
      StepPlan plan = build_step_plan(step_shape(strategy, 2, 1, frozen)).value();
      CHECK(verify_sequences(plan).message() == "");
      for (Action& action : plan.actions) {
        if (action.content == Content::kFrozen) {  // waits for its buffer only
          action.after_previous.clear();
        }
      }
      const std::string message = verify_sequences(plan).message();
      const bool shares = std::any_of(sharing.begin(), sharing.end(), [&](const auto& one) {
        return letters(strategy) == one.first && frozen == one.second;
      });
      INFO(message);
      CHECK((message.find("ranks could start") != std::string::npos) == shares);
    }
  }
}

TEST_CASE("collectives of one communicator on two tracks are in order, whatever they are") {
  // An all-reduce beside the reductions, which nothing orders with those of the next micro-batch.
  StepPlan plan = build_step_plan(step_shape(parse_strategy("NNN").value(), 2)).value();
  CHECK(verify_sequences(plan).ok());
  first(plan, [](const Action& a) { return a.act == Act::kAllReduce; }).track = Track::kGathers;
  CHECK(has(verify_sequences(plan).message(), "ranks could start"));
  CHECK(has(verify_sequences(plan).message(), "all_reduce"));
  // Of another kind it would be a sequence of its own.
  first(plan, [](const Action& a) { return a.track == Track::kGathers; }).act = Act::kReduceScatter;
  CHECK(verify_sequences(plan).ok());
}
