// Which plans of one config are proved right: they differ in nothing but their number of
// micro-batches, so each number once.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "base/status.hpp"
#include "group/group_map.hpp"
#include "layout/unit_layout.hpp"
#include "step/step_plan.hpp"

namespace paro {

class PlanProofs {
 public:
  // Ok, too, for a plan that would take too long to prove. With its streams, where it has some.
  [[nodiscard]] ho::Status prove(const StepPlan& plan,
                                 const std::vector<UnitLayout>& layouts,
                                 const ho::GroupMap& groups,
                                 bool on_streams);
  // That were begun.
  [[nodiscard]] uint64_t count() const { return count_; }

 private:
  std::set<uint32_t> proved_;  // numbers of micro-batches
  uint64_t count_ = 0;
};

}  // namespace paro
