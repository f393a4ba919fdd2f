// A request's model as the units that a step plan gathers, computes and reduces. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/request.hpp"
#include "step/step_plan.hpp"

namespace paro {

// One that others share, where there is one, the layers, and those that share it; or the request's
// own units.
class Units {
 public:
  explicit Units(const PlannerRequest& request);

  [[nodiscard]] const UnitSize& layer() const { return sizes_[first_layer_]; }
  [[nodiscard]] const UnitSize& operator[](uint32_t unit) const { return sizes_[unit]; }
  [[nodiscard]] uint32_t count() const { return static_cast<uint32_t>(sizes_.size()); }
  [[nodiscard]] bool shares(uint32_t unit) const { return unit + sharing_ >= count(); }

  // The most trained parameters of a unit.
  [[nodiscard]] double largest_trainable() const;
  // The most parameters of so many neighbours.
  [[nodiscard]] double largest_together(uint32_t neighbours) const;
  [[nodiscard]] double largest() const { return largest_together(1); }

 private:
  std::vector<UnitSize> sizes_;
  uint32_t sharing_;  // the last ones
  size_t first_layer_;
};

[[nodiscard]] StepShape shape_of(const Strategy& strategy,
                                 const PlannerRequest& request,
                                 uint32_t micro_batches);

}  // namespace paro
