#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "planner/planner.hpp"
#include "requests.hpp"

namespace paro {
namespace {

struct Spoiled {
  std::function<void(PlannerRequest&)> spoil;
  const char* message;
};

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("numbers that cannot be are named, with what they may be") {
  const std::vector<Spoiled> cases{
      {[](PlannerRequest& r) { r.model.parameters = 0; }, "parameters 0: takes 1 to"},
      {[](PlannerRequest& r) { r.model.parameters = kNan; }, "parameters nan: takes 1 to"},
      {[](PlannerRequest& r) { r.model.trainable = 8e9; },
       "trained parameters 8000000000: takes 1 to 7000000000"},
      {[](PlannerRequest& r) { r.model.trainable = -1; }, "trained parameters -1: takes 1 to"},
      {[](PlannerRequest& r) { r.layers = 0; }, "layers 0: takes 1 to 1024"},
      {[](PlannerRequest& r) { r.layers = 1025; }, "layers 1025: takes 1 to 1024"},
      {[](PlannerRequest& r) { r.bytes.optimizer = -12; }, "bytes of optimizer state -12: takes 0"},
      {[](PlannerRequest& r) { r.world.group_count = 0; }, "groups 0: takes 1 to"},
      {[](PlannerRequest& r) { r.world.group_size = 0; }, "ranks of a group 0: takes 1 to"},
      {[](PlannerRequest& r) {
         r.world = {1U << 16U, 1U << 16U};
       },
       "ranks 4294967296: takes 1 to"},
      {[](PlannerRequest& r) { r.links.intra_bytes_per_s = 0; }, "inside a group 0: takes 1 to"},
      {[](PlannerRequest& r) { r.links.inter_bytes_per_s = kInfinity; },
       "of a NIC inf: takes 1 to"},
      {[](PlannerRequest& r) { r.links.nics_per_group = 0; }, "NICs of a group 0: takes 0.001 to"},
      {[](PlannerRequest& r) { r.links.intra_call_s = -1; },
       "seconds of a call inside a group -1: takes 0 to"},
      {[](PlannerRequest& r) { r.links.inter_call_s = kNan; },
       "seconds of a call between groups nan: takes 0 to"},
      {[](PlannerRequest& r) { r.links.world_call_s = kInfinity; },
       "seconds of a call over all ranks inf: takes 0 to"},
      {[](PlannerRequest& r) { r.memory_bytes = -1; }, "bytes of memory -1: takes 0 to"},
      {[](PlannerRequest& r) { r.activation_bytes = kNan; },
       "bytes of activations nan: takes 0 to"},
      {[](PlannerRequest& r) { r.micro_batches = 0; }, "micro-batches 0: takes 1 to 1000000"},
      {[](PlannerRequest& r) { r.compute_s = -0.5; }, "seconds of computation -0.5: takes 0 to"},
      {[](PlannerRequest& r) { r.update_s = -1; }, "seconds of an update -1: takes 0 to"},
      {[](PlannerRequest& r) { r.sharing_units = 1025; },
       "units that share another's parameters 1025: takes 0 to 1024"},
      {[](PlannerRequest& r) { r.sharing_units = 1, r.model.shared = 8e9; },
       "parameters that they share 8000000000: takes 1 to 7000000000"},
      {[](PlannerRequest& r) { r.model.shared = 1; }, "parameters that they share 1: takes 0 to 0"},
      {[](PlannerRequest& r) {
         r.sharing_units = 1, r.model.shared = 5, r.model.shared_trainable = 6;
       },
       "trained parameters that they share 6: takes 0 to 5"},
      {[](PlannerRequest& r) { r.prefetch = r.layers + 1; },
       "layers gathered ahead 33: takes 0 to 32"}};
  for (const Spoiled& spoiled : cases) {
    PlannerRequest request = seven_billion();
    spoiled.spoil(request);
    const auto refused = recommend(request);
    INFO(spoiled.message << "; got " << refused.status().message());
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.status().code() == ho::StatusCode::kInvalidArgument);
    CHECK(refused.status().message().find(spoiled.message) != std::string::npos);
  }
}

TEST_CASE("the largest request is worked out to finite figures") {
  PlannerRequest request = request_for(1e15, 1e15, kMaxLayers);
  request.sharing_units = kMaxLayers;
  request.model.shared = 1e15 * kMaxLayers;
  request.model.shared_trainable = request.model.shared;
  request.micro_batches = 1'000'000;
  request.world = {1U << 10U, 1U << 10U};
  request.compute_s = 1e9;
  const Recommendation all = recommendation_for(request);
  for (const StrategyFigures& row : all.figures) {
    CHECK(std::isfinite(row.time.step_s));
    CHECK(row.time.step_s >= 1e9);
  }
}

}  // namespace paro
