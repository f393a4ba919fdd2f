#include "run/shards.hpp"

#include <algorithm>

#include "run/agreement.hpp"

namespace paro {

void Shards::make_routes(const StepPlan& plan) {
  trained_routes.clear();
  frozen_routes.clear();
  merged_routes.clear();
  for (const UnitLayout& layout : layouts) {
    trained_routes.emplace_back(layout.trained, *domains);
    frozen_routes.emplace_back(layout.frozen, *domains);
  }
  for (const Action& action : plan.actions) {
    if (!is_merged(action) || merged_routes.contains(action.unit)) {
      continue;
    }
    std::vector<const Partition*> partitions;
    for (const uint32_t unit : units_of(action)) {
      partitions.push_back(&layouts[unit].trained);
    }
    merged_routes.emplace(action.unit, Routes(partitions, *domains));
  }
}

uint64_t Shards::wait_after_failure_ms() const {
  constexpr uint64_t kMinMs = 5000;
  return std::max(domains->timeout_ms(), kMinMs);
}

ho::Status Shards::break_unless_ok(const ho::Status& status, const std::string& what) {
  if (!status.ok() && broken.ok()) {
    broken = status.with_context("rank " + std::to_string(self().value()) + ", " + what);
    // Ranks of other sets would wait for this one until their deadlines.
    domains->abort(broken.message().c_str());
    ledger.memory().limit_waits(wait_after_failure_ms());
  }
  return broken;
}

ho::Result<std::vector<uint64_t>> Shards::gather(uint64_t mine, const std::string& what) {
  auto all = all_gather_values(domains->world(), {&mine, 1}, config.timeout_ms);
  HORING_TRY(break_unless_ok(all.status(), what));
  return all;
}

ho::Status Shards::break_on_all(const std::string& why) {
  broken = {ho::StatusCode::kMismatch, why};
  ledger.memory().limit_waits(wait_after_failure_ms());
  return broken;
}

}  // namespace paro
