// What a running job asks the planner.
#include "steering/choice.hpp"

#include "catch.hpp"
#include "planner/figures.hpp"

using namespace paro;
using namespace paro::steering;

namespace {

// An embedding, blocks, and a norm.
RunnerConfig untied() {
  RunnerConfig config;
  config.units = {{"table", 700, 0}, {"block0", 300, 0}, {"block1", 300, 100}, {"norm", 10, 0}};
  return config;
}

MeasuredLinks links() {
  return {{2, 2}, {1e9, 1e8, 1, WorldAlgorithm::kHoRing}};
}

}  // namespace

TEST_CASE("a job without shared units is layers of equal size") {
  const PlannerRequest request = request_of(untied(), links(), 2);
  CHECK(check(request).ok());
  CHECK(request.model.parameters == 1410);
  CHECK(request.model.trainable == 1310);
  CHECK(request.model.shared == 0);
  CHECK(request.layers == 4);
  CHECK(request.sharing_units == 0);
  CHECK(request.bytes.gradient_sum == 4);
  CHECK(request.compute_s == 2);
}

TEST_CASE("what units of a job share is gathered and reduced once more for each") {
  RunnerConfig config = untied();
  config.units.push_back({"head", 0, 0, 0});
  config.prefetch = 5;
  const PlannerRequest request = request_of(config, links(), 2);
  CHECK(check(request).ok());
  CHECK(request.model.parameters == 1410);
  CHECK(request.model.shared == 700);
  CHECK(request.model.shared_trainable == 700);
  CHECK(request.layers == 3);
  CHECK(request.sharing_units == 1);
  const Strategy strategy = parse_strategy("GGG").value();
  const StepTime tied = figures_of(strategy, request)->time;
  const StepTime alone = figures_of(strategy, request_of(untied(), links(), 2))->time;
  CHECK(tied.terms.parameters == Approx(alone.terms.parameters * 2110 / 1410));
  CHECK(tied.terms.gradients == Approx(alone.terms.gradients * 2010 / 1310));
  // Of several homes each counts with its own size.
  config.units.push_back({"again", 0, 0, 2});
  const PlannerRequest two = request_of(config, links(), 2);
  CHECK(two.model.shared == 1100);
  CHECK(two.model.shared_trainable == 1000);
  CHECK(two.sharing_units == 2);
  CHECK(check(two).ok());
}

TEST_CASE("gradients of 16 bits are summed in fp32 where there is more than one") {
  RunnerConfig config = untied();
  config.gradient_dtype = ho::DType::kBfloat16;
  CHECK(request_of(config, links(), 2).bytes.gradient_sum == 2);
  config.micro_batches = 2;
  CHECK(request_of(config, links(), 2).bytes.gradient_sum == 4);
  config.narrow_sums = true;
  CHECK(request_of(config, links(), 2).bytes.gradient_sum == 2);
  config.micro_batches = 1;
  config.narrow_sums = false;
  config.units.push_back({"head", 0, 0, 0});
  CHECK(request_of(config, links(), 2).bytes.gradient_sum == 4);
}

TEST_CASE("a job of more units than the planner takes is asked about with as many as it does") {
  RunnerConfig config;
  config.units.assign(3000, {"block", 8, 0});
  for (uint32_t u = 0; u < 2000; ++u) {
    config.units.push_back({"again", 0, 0, u});
  }
  const PlannerRequest request = request_of(config, links(), 2);
  CHECK(check(request).ok());
  CHECK(request.layers == kMaxLayers);
  CHECK(request.sharing_units == kMaxLayers);
}
