// The order of a framework's calls, on one rank that has all states: until a step ends nothing
// moves.
#include "run/hooks.hpp"

#include "catch.hpp"
#include "run/between_steps.hpp"
#include "run/budget.hpp"
#include "run/start_when_ready.hpp"

using namespace paro;

namespace {

RunnerConfig config_of_two_units() {
  RunnerConfig config;
  config.strategy = parse_strategy("NNN").value();
  config.units = {{"embedding", 64, 0}, {"head", 48, 0}};
  config.micro_batches = 2;
  return config;
}

StepPlan plan_of(const RunnerConfig& config) {
  return build_step_plan(
             {config.strategy, config.frozen, config.units, config.micro_batches, config.prefetch})
      .value();
}

// A runner's parts without communicators.
struct Parts {
  Parts() {
    const ho::GroupMap alone = ho::GroupMap::from_sizes({1}).value();
    shards.layouts = lay_out(shards.config.units, alone, shards.config.alignment).value();
    const StateShape shape = state_shape(shards);
    for (const UnitLayout& layout : shards.layouts) {
      shards.units.push_back(
          UnitState::make(shards.ledger, layout, shape, ho::GlobalRank(0)).value());
    }
    REQUIRE(progress.allocate(shape).ok());
    progress.use_ends(nullptr);
  }

  HostMemory memory;
  Shards shards = Shards(config_of_two_units(), memory);
  Updater updater = Updater(shards.config, GroupsByUnit(shards.config.units.size()));
  StepAgreement agreement = StepAgreement(shards);
  StartWhenReady progress =
      StartWhenReady(shards, updater, agreement, plan_of(shards.config), /*packs_one=*/false);
  Hooks hooks = Hooks(shards, progress);
  BetweenSteps between_steps = BetweenSteps(shards, updater, agreement, progress);
};

void compute(Hooks& hooks, Act act, uint32_t unit) {
  const auto view = hooks.begin(act, unit);
  INFO(view.status().message());
  REQUIRE(view.ok());
  CHECK(view->trained != nullptr);
  CHECK(view->frozen == nullptr);
  CHECK((view->gradients != nullptr) == (act == Act::kBackward));
  CHECK(hooks.computing());
  REQUIRE(hooks.end(act, unit).ok());
  CHECK_FALSE(hooks.computing());
}

std::string refusal(const ho::Status& status) {
  CHECK(status.code() == ho::StatusCode::kInvalidArgument);
  return status.message();
}

}  // namespace

TEST_CASE("a call out of order says which one comes next, and changes nothing") {
  Parts parts;
  const std::string shape = " of 2 units and 2 micro-batches: the next call is ";
  CHECK(refusal(parts.hooks.end(Act::kForward, 0)) ==
        "after_forward(0)" + shape + "before_forward(0) (micro-batch 0)");
  CHECK(refusal(parts.hooks.begin(Act::kForward, 1).status()) ==
        "before_forward(1)" + shape + "before_forward(0) (micro-batch 0)");
  compute(parts.hooks, Act::kForward, 0);
  compute(parts.hooks, Act::kForward, 1);
  REQUIRE(parts.hooks.begin(Act::kBackward, 1).ok());
  CHECK(refusal(parts.hooks.begin(Act::kBackward, 0).status()) ==
        "before_backward(0)" + shape + "after_backward(1) (micro-batch 0)");
  REQUIRE(parts.hooks.end(Act::kBackward, 1).ok());
  compute(parts.hooks, Act::kBackward, 0);
  compute(parts.hooks, Act::kForward, 0);
  CHECK(parts.progress.scheduler().computations_over() == 5);
  CHECK(parts.shards.broken.ok());
}

TEST_CASE("a step that begins anew takes its first call") {
  Parts parts;
  compute(parts.hooks, Act::kForward, 0);
  REQUIRE(parts.hooks.begin(Act::kForward, 1).ok());
  parts.progress.begin_step_anew();
  parts.hooks.forget();
  CHECK(parts.progress.counted().hooks == 3);  // what was counted stays
  compute(parts.hooks, Act::kForward, 0);
}

TEST_CASE("states are not to be loaded in the middle of a step, nor with other sizes") {
  Parts parts;
  const std::vector<float> values(64);
  CHECK(refusal(parts.between_steps.load(1, values, {})) ==
        "load: unit 1 with 64 trained and 0 frozen elements, where it has 48 and 0");
  CHECK(refusal(parts.between_steps.load(2, values, {})) ==
        "load: unit 2 with 64 trained and 0 frozen elements, of 2 units");
  compute(parts.hooks, Act::kForward, 0);
  CHECK(refusal(parts.between_steps.load(0, values, {})) ==
        "load in the middle of a step: call it after step()");
}
