#include "planner/units.hpp"

#include <algorithm>

namespace paro {
namespace {

// A layer's elements in the step plan's shape. Only whether there are any matters there, and how
// many are a bucket: bytes are counted from the request.
constexpr uint64_t kLayerElements = 1024;

constexpr double kMaxShare = 1e15;  // where layers have next to nothing

// Of what is `share` of a layer.
uint64_t elements(double share) {
  return static_cast<uint64_t>(std::clamp(share, 0.0, kMaxShare) * kLayerElements +
                               (share > 0 ? 1 : 0));
}

UnitShape shape_of(const UnitSize& unit, const UnitSize& layer) {
  UnitShape shape;
  shape.trained = unit.trainable == layer.trainable ? kLayerElements * (layer.trainable > 0 ? 1 : 0)
                                                    : elements(unit.trainable / layer.trainable);
  shape.frozen = unit.parameters > unit.trainable ? 1 : 0;
  return shape;
}

// That a bucket may have.
uint64_t bucket_elements(const PlannerRequest& request) {
  const Units units(request);
  const double layer = request.bytes.gradient * units.layer().trainable;
  if (request.bucket_bytes == 0 || layer == 0) {
    return 0;
  }
  const double together = static_cast<double>(request.bucket_bytes) / layer;
  return static_cast<uint64_t>(std::min(together, kMaxShare) * kLayerElements);
}

}  // namespace

Units::Units(const PlannerRequest& request)
    : sizes_(request.units),
      sharing_(request.sharing_units),
      first_layer_(sizes_.size() > 1 || sharing_ > 0 ? 1 : 0) {
  if (!sizes_.empty()) {
    return;
  }
  const ModelSize& model = request.model;
  UnitSize shared;
  if (sharing_ > 0) {
    shared = {model.shared / sharing_, model.shared_trainable / sharing_, model.shared / sharing_};
    sizes_.push_back(shared);
  }
  const double parameters = std::max(model.parameters - shared.parameters, 0.0) / request.layers;
  const double trainable = std::max(model.trainable - shared.trainable, 0.0) / request.layers;
  // A unit computes for as long as it has parameters.
  sizes_.insert(sizes_.end(), request.layers, {parameters, trainable, parameters});
  sizes_.insert(sizes_.end(), sharing_, shared);
}

double Units::largest_trainable() const {
  double most = 0;
  for (const UnitSize& size : sizes_) {
    most = std::max(most, size.trainable);
  }
  return most;
}

double Units::largest_together(uint32_t neighbours) const {
  double most = 0;
  double sum = 0;
  for (uint32_t unit = 0; unit < count(); ++unit) {
    sum += sizes_[unit].parameters;
    sum -= unit >= neighbours ? sizes_[unit - neighbours].parameters : 0;
    most = std::max(most, sum);
  }
  return most;
}

StepShape shape_of(const Strategy& strategy,
                   const PlannerRequest& request,
                   uint32_t micro_batches) {
  const Units units(request);
  StepShape shape;
  shape.strategy = strategy;
  shape.frozen = strategy.parameters;
  UnitShape sharing;
  sharing.shares = 0;
  for (uint32_t unit = 0; unit < units.count(); ++unit) {
    shape.units.push_back(units.shares(unit) ? sharing : shape_of(units[unit], units.layer()));
  }
  shape.micro_batches = micro_batches;
  shape.prefetch = request.prefetch;
  shape.bucket_elements = bucket_elements(request);
  return shape;
}

}  // namespace paro
