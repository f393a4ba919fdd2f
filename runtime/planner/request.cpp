#include "planner/request.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace paro {
namespace {

constexpr double kMostParameters = 1e15;
constexpr double kMostRanks = 1U << 20U;
constexpr double kMostBytes = 1e18;
constexpr double kMostSeconds = 1e9;
constexpr double kMostMicroBatches = 1e6;

struct Quantity {
  std::string_view name;
  double value;
  double least;
  double most;
};

ho::Status within(const Quantity& quantity) {
  // Not the other way round: no comparison with a NaN holds.
  if (quantity.value >= quantity.least && quantity.value <= quantity.most) {
    return {};
  }
  return {
      ho::StatusCode::kInvalidArgument,
      fmt::format(
          "{} {}: takes {} to {}", quantity.name, quantity.value, quantity.least, quantity.most)};
}

}  // namespace

uint32_t unit_count(const PlanRequest& request) {
  return request.layers + (request.sharing_units == 0 ? 0 : 1 + request.sharing_units);
}

ho::Status check(const PlanRequest& request) {
  const WorldShape& world = request.world;
  const Links& links = request.links;
  // Links that no collective uses may have any rate.
  const double least_intra = world.group_size > 1 ? 1 : 0;
  const double least_inter = world.group_count > 1 ? 1 : 0;
  const ModelSize& model = request.model;
  const double sharing = request.sharing_units;
  const std::array quantities{
      Quantity{"parameters", model.parameters, 1, kMostParameters},
      Quantity{"trained parameters", model.trainable, 1, model.parameters},
      Quantity{"layers", double{1} * request.layers, 1, kMostLayers},
      Quantity{"units that share another's parameters", sharing, 0, kMostLayers},
      Quantity{"parameters that they share",
               model.shared,
               std::min(sharing, 1.0),
               model.parameters * sharing},
      Quantity{"trained parameters that they share",
               model.shared_trainable,
               0,
               std::min(model.shared, model.trainable * sharing)},
      Quantity{"bytes of a parameter", request.bytes.parameter, 0, kMostBytes},
      Quantity{"bytes of a gradient", request.bytes.gradient, 0, kMostBytes},
      Quantity{"bytes of optimizer state", request.bytes.optimizer, 0, kMostBytes},
      Quantity{"groups", double{1} * world.group_count, 1, kMostRanks},
      Quantity{"ranks of a group", double{1} * world.group_size, 1, kMostRanks},
      Quantity{"ranks", double{1} * world.group_count * world.group_size, 1, kMostRanks},
      Quantity{"bytes per second inside a group", links.intra_bytes_per_s, least_intra, kMostBytes},
      Quantity{"bytes per second of a NIC", links.inter_bytes_per_s, least_inter, kMostBytes},
      Quantity{"NICs of a group", links.nics_per_group, least_inter * 1e-3, kMostRanks},
      Quantity{"bytes of memory", request.memory_bytes, 0, kMostBytes},
      Quantity{"bytes of activations", request.activation_bytes, 0, kMostBytes},
      Quantity{"micro-batches", double{1} * request.micro_batches, 1, kMostMicroBatches},
      Quantity{"seconds of computation", request.compute_s, 0, kMostSeconds},
      Quantity{"the forward pass's share of it", request.forward_share, 0, 1},
      Quantity{"layers gathered ahead",
               double{1} * request.prefetch,
               0,
               double{1} * unit_count(request)},
  };
  for (const Quantity& quantity : quantities) {
    HORING_TRY(within(quantity));
  }
  return {};
}

}  // namespace paro
