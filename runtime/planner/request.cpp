#include "planner/request.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace paro {
namespace {

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
  return ho::invalid(fmt::format(
      "{} {}: takes {} to {}", quantity.name, quantity.value, quantity.least, quantity.most));
}

}  // namespace

uint32_t unit_count(const PlannerRequest& request) {
  if (!request.units.empty()) {
    return static_cast<uint32_t>(request.units.size());
  }
  return request.layers + (request.sharing_units == 0 ? 0 : 1 + request.sharing_units);
}

ho::Status check(const PlannerRequest& request) {
  const WorldShape& world = request.world;
  const Links& links = request.links;
  // Links that no collective uses may have any rate.
  const bool short_form = links.levels.empty();
  const double least_intra = short_form && world.group_size > 1 ? 1 : 0;
  const double least_inter = short_form && world.group_count > 1 ? 1 : 0;
  const ModelSize& model = request.model;
  const double sharing = request.sharing_units;
  const std::array quantities{
      Quantity{"parameters", model.parameters, 1, kMaxParameters},
      Quantity{"trained parameters", model.trainable, 1, model.parameters},
      Quantity{"layers", double{1} * request.layers, 1, kMaxLayers},
      Quantity{"units", double{1} * unit_count(request), 1, 2.0 * kMaxLayers + 2},
      Quantity{"units that share another's parameters", sharing, 0, kMaxLayers},
      Quantity{"parameters that they share",
               model.shared,
               std::min(sharing, 1.0),
               model.parameters * sharing},
      Quantity{"trained parameters that they share",
               model.shared_trainable,
               0,
               std::min(model.shared, model.trainable * sharing)},
      Quantity{"bytes of a parameter", request.bytes.parameter, 0, kMaxBytes},
      Quantity{"bytes of a gradient", request.bytes.gradient, 0, kMaxBytes},
      Quantity{"bytes of optimizer state", request.bytes.optimizer, 0, kMaxBytes},
      Quantity{"groups", double{1} * world.group_count, 1, kMaxRanks},
      Quantity{"ranks of a group", double{1} * world.group_size, 1, kMaxRanks},
      Quantity{"ranks", double{1} * world.group_count * world.group_size, 1, kMaxRanks},
      Quantity{"bytes per second inside a group", links.intra_bytes_per_s, least_intra, kMaxBytes},
      Quantity{"bytes per second of a NIC", links.inter_bytes_per_s, least_inter, kMaxBytes},
      Quantity{"seconds of a call inside a group", links.intra_call_s, 0, kMaxSeconds},
      Quantity{"seconds of a call between groups", links.inter_call_s, 0, kMaxSeconds},
      Quantity{"seconds of a call over all ranks", links.world_call_s, 0, kMaxSeconds},
      Quantity{"bytes between groups for each of a call's", links.between_factor, 0, kMaxRanks},
      Quantity{"NICs of a group", links.nics_per_group, least_inter * kMinNics, kMaxRanks},
      Quantity{"bytes of memory", request.memory_bytes, 0, kMaxBytes},
      Quantity{"bytes of activations", request.activation_bytes, 0, kMaxBytes},
      Quantity{"bytes of memory in reserve", request.reserve_bytes, 0, kMaxBytes},
      Quantity{"bytes of a sequence's activations", request.activations_of_sequence, 0, kMaxBytes},
      Quantity{"sequences of a micro-batch", double{1} * request.micro_batch, 0, kMaxMicroBatches},
      Quantity{"sequences of a rank", double{1} * request.sequences, 0, kMaxMicroBatches},
      Quantity{"the routed experts' share of parameters", request.routed_share, 0, 1},
      Quantity{"ranks that share routed experts",
               double{1} * request.expert_ranks,
               1,
               double{1} * world.group_count * world.group_size},
      Quantity{"micro-batches", double{1} * request.micro_batches, 1, kMaxMicroBatches},
      Quantity{"seconds of computation", request.compute_s, 0, kMaxSeconds},
      Quantity{
          "seconds that other dimensions are waited for", request.waiting_s, 0, request.compute_s},
      Quantity{"seconds more on links half as good", request.half_links_more_s, 0, kMaxSeconds},
      Quantity{"seconds of an update", request.update_s, 0, kMaxSeconds},
      Quantity{"the forward pass's share of it", request.forward_share, 0, 1},
      Quantity{"the share of hidden communication that comes back", request.effects.slowdown, 0, 1},
      Quantity{"the jitter of a step", request.effects.jitter, 0, 1},
      Quantity{"seconds of a launch", request.effects.launch_s, 0, kMaxSeconds},
      Quantity{"layers gathered ahead",
               double{1} * request.prefetch,
               0,
               double{1} * unit_count(request)},
  };
  for (const Quantity& quantity : quantities) {
    HORING_TRY(within(quantity));
  }
  if (!short_form) {
    HORING_TRY(ho::cost::check(links.levels, world.ranks()));
    HORING_TRY(inside_groups(links.levels, world.group_size).status());
  }
  for (const std::vector<ho::cost::Cluster>* const clusters : {&links.protocols, &links.trees}) {
    for (const ho::cost::Cluster& cluster : *clusters) {
      HORING_TRY(ho::cost::check(cluster, world.ranks()));
      HORING_TRY(between_groups(cluster, world.group_size).status());
    }
  }
  return {};
}

}  // namespace paro
