#include "run/plan_proofs.hpp"

#include "step/streams.hpp"
#include "step/verify.hpp"

namespace paro {
namespace {

// A plan that runs is a plan that was proved, where that takes well below a second and some
// megabytes (a bit per pair of actions of two steps); the tests prove every strategy, and no
// builder looks at how many ranks or units there are.
constexpr double kMaxVerifyingWork = 1U << 28U;
constexpr size_t kMaxVerifiedActions = 4096;

bool is_quickly_verified(const StepPlan& plan, const ho::GroupMap& groups) {
  const double ranks = groups.world_size();
  const auto actions = static_cast<double>(plan.actions.size());
  return plan.actions.size() <= kMaxVerifiedActions &&
         actions * ranks * ranks * ranks * plan.shape.micro_batches <= kMaxVerifyingWork;
}

}  // namespace

ho::Status PlanProofs::prove(const StepPlan& plan,
                             const std::vector<UnitLayout>& layouts,
                             const ho::GroupMap& groups,
                             bool on_streams) {
  if (proved_.contains(plan.shape.micro_batches) || !is_quickly_verified(plan, groups)) {
    return {};
  }
  ++count_;
  HORING_TRY(verify(plan, layouts, groups));
  if (on_streams) {
    HORING_TRY(verify_streams(plan, streams_of(plan)));
  }
  proved_.insert(plan.shape.micro_batches);
  return {};
}

}  // namespace paro
