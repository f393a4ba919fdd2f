#include <algorithm>
#include <map>

#include "catch.hpp"
#include "shapes.hpp"
#include "step/step_plan.hpp"

using namespace paro;
using paro::test::step_shape;

namespace {

// The collectives of one trained unit in a step of one micro-batch, in order.
std::string collectives(const char* triple) {
  const StepShape shape{parse_strategy(triple).value(), Scope::kReplicated, {{"unit", 8, 0}}, 1, 1};
  const StepPlan plan = build_step_plan(shape).value();
  std::string text;
  for (const Action& action : plan.actions) {
    if (is_collective(action.act) && action.act != Act::kAgree) {
      text += (text.empty() ? "" : ", ") + std::string(to_string(action.domain)) + " " +
              std::string(to_string(action.act));
    }
  }
  return text;
}

}  // namespace

TEST_CASE("each strategy communicates where its scopes differ") {
  const std::map<const char*, const char*> expected{
      {"NNN", "world all_reduce"},
      {"NNI", "intra reduce_scatter, inter all_reduce, intra all_gather"},
      {"NII", "intra reduce_scatter, inter all_reduce, intra all_gather"},
      {"NNG", "world reduce_scatter, world all_gather"},
      {"NIG", "intra reduce_scatter, inter reduce_scatter, world all_gather"},
      {"NGG", "world reduce_scatter, world all_gather"},
      {"INI", "intra all_gather, intra all_gather, intra reduce_scatter, inter all_reduce"},
      {"III", "intra all_gather, intra all_gather, intra reduce_scatter, inter all_reduce"},
      {"ING", "intra all_gather, intra all_gather, world reduce_scatter, inter all_gather"},
      {"IIG",
       "intra all_gather, intra all_gather, intra reduce_scatter, inter reduce_scatter, inter "
       "all_gather"},
      {"IGG", "intra all_gather, intra all_gather, world reduce_scatter, inter all_gather"},
      {"GNG", "world all_gather, world all_gather, world reduce_scatter"},
      {"GIG", "world all_gather, world all_gather, intra reduce_scatter, inter reduce_scatter"},
      {"GGG", "world all_gather, world all_gather, world reduce_scatter"},
  };
  REQUIRE(expected.size() == kStrategyCount);
  for (const auto& [triple, text] : expected) {
    INFO(triple);
    CHECK(collectives(triple) == text);
  }
}

TEST_CASE("gradients that every rank accumulates move once per step") {
  for (const char* triple : {"NNN", "NNI", "NNG", "INI", "ING", "GNG"}) {
    const StepPlan plan = build_step_plan(step_shape(parse_strategy(triple).value(), 5)).value();
    const auto reductions =
        std::count_if(plan.actions.begin(), plan.actions.end(), [](const Action& action) {
          return action.content == Content::kGradients && action.phase == Phase::kBackward &&
                 is_collective(action.act);
        });
    CHECK(reductions == 0);
  }
}

TEST_CASE("units without trained parameters have no gradients and no update") {
  const StepPlan plan = build_step_plan(step_shape(parse_strategy("IGG").value(), 2)).value();
  for (const Action& action : plan.actions) {
    const bool moves_gradients = is_collective(action.act) && action.content == Content::kGradients;
    if (moves_gradients || action.act == Act::kUpdate) {
      CHECK(plan.shape.units[action.unit].trained > 0);
    }
    if (action.content == Content::kFrozen) {
      CHECK(plan.shape.units[action.unit].frozen > 0);
    }
  }
}

TEST_CASE("what cannot be a step is refused") {
  StepShape shape = step_shape({Scope::kGroup, Scope::kReplicated, Scope::kReplicated}, 1);
  CHECK_FALSE(build_step_plan(shape).ok());
  shape = step_shape({}, 0);
  CHECK(build_step_plan(shape).status().message().find("0 micro-batches") != std::string::npos);
  shape = step_shape({}, UINT32_MAX);
  CHECK_FALSE(build_step_plan(shape).ok());
  shape.units.clear();
  shape.micro_batches = 1;
  CHECK_FALSE(build_step_plan(shape).ok());
}
