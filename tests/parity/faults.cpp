#include "faults.hpp"

#include <horing.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <vector>

#include "optim/gradients.hpp"
#include "run/step_runner.hpp"
#include "run/step_votes.hpp"
#include "step/verify.hpp"

// Of a function: what its callers get, and the function itself.
#define INSTEAD_OF(symbol) asm("__wrap_" symbol)
#define THE_REAL(symbol) asm("__real_" symbol)
#define ACCUMULATE "_ZN4paro10accumulateEN2ho5DTypeESt4spanIfLm18446744073709551615EEPKv"
#define BEFORE_BACKWARD "_ZN4paro10StepRunner15before_backwardEj"
#define BUILD_STEP_PLAN "_ZN4paro15build_step_planERKNS_9StepShapeE"
#define VERIFY "_ZN4paro6verifyERKNS_8StepPlanERKSt6vectorINS_10UnitLayoutESaIS4_EERKN2ho8GroupMapE"

namespace paro::test {
namespace {

std::atomic<Fault> injected{Fault::kNone};
std::atomic<uint32_t> accepted{0};
std::atomic<uint32_t> refused{0};

bool is_wrong_plan(Fault fault) {
  return fault == Fault::kSkipGroupsOfOne || fault == Fault::kForgetUnitOfBucket;
}

ho_op faulty(ho_op op, ho_dtype dtype) {
  return injected == Fault::kAverageTwice && dtype == HO_FLOAT32 && op == HO_SUM ? HO_AVG : op;
}

// Of the row that ranks agree on a step by, whose last two are the norm and the count of what is
// not finite: which number does not leave the group.
size_t sum_in_group(Fault fault) {
  if (fault == Fault::kNormOverGroup) {
    return kAgreeNumbers - 2;
  }
  return fault == Fault::kFlagInGroup ? kAgreeNumbers - 1 : kAgreeNumbers;
}

// Over the ranks of this one's group in the communicator.
ho_status group_sum(ho_comm* comm, double mine, double* sum) {
  std::vector<double> all(static_cast<size_t>(ho_comm_world_size(comm)));
  const ho_status status =
      ho_all_gather(comm, &mine, all.data(), 1, HO_FLOAT64, nullptr, nullptr, nullptr);
  const int32_t group = ho_comm_group_of(comm, ho_comm_rank(comm));
  *sum = 0;
  for (int32_t rank = 0; rank < ho_comm_world_size(comm); ++rank) {
    *sum += ho_comm_group_of(comm, rank) == group ? all[static_cast<size_t>(rank)] : 0;
  }
  return status;
}

}  // namespace

void inject(Fault fault) {
  injected = fault;
  accepted = 0;
  refused = 0;
}

uint32_t wrong_plans_accepted() {
  return accepted;
}

uint32_t wrong_plans_refused() {
  return refused;
}

extern "C" {
decltype(ho_all_reduce) real_all_reduce THE_REAL("ho_all_reduce");
decltype(ho_all_reduce) faulty_all_reduce INSTEAD_OF("ho_all_reduce");
decltype(ho_reduce_scatter_counts) real_reduce_scatter THE_REAL("ho_reduce_scatter_counts");
decltype(ho_reduce_scatter_counts) faulty_reduce_scatter INSTEAD_OF("ho_reduce_scatter_counts");
decltype(ho_all_gather) real_all_gather THE_REAL("ho_all_gather");
decltype(ho_all_gather) faulty_all_gather INSTEAD_OF("ho_all_gather");
}
void real_accumulate(ho::DType dtype, std::span<float> sums, const void* from) THE_REAL(ACCUMULATE);
void faulty_accumulate(ho::DType dtype, std::span<float> sums, const void* from)
    INSTEAD_OF(ACCUMULATE);
// A member function is called as a free one that takes the object first.
ho::Result<UnitView> real_before_backward(StepRunner* runner, uint32_t unit)
    THE_REAL(BEFORE_BACKWARD);
ho::Result<UnitView> faulty_before_backward(StepRunner* runner, uint32_t unit)
    INSTEAD_OF(BEFORE_BACKWARD);
decltype(build_step_plan) real_build_step_plan THE_REAL(BUILD_STEP_PLAN);
decltype(build_step_plan) faulty_build_step_plan INSTEAD_OF(BUILD_STEP_PLAN);
decltype(verify) real_verify THE_REAL(VERIFY);
decltype(verify) faulty_verify INSTEAD_OF(VERIFY);

ho_status faulty_all_reduce(ho_comm* comm,
                            const void* send,
                            void* recv,
                            size_t count,
                            ho_dtype dtype,
                            ho_op op,
                            const ho_call_options* options,
                            ho_op_report* report,
                            ho_request** request) {
  const size_t at = sum_in_group(injected);
  if (count != kAgreeNumbers || dtype != HO_FLOAT64 || at == kAgreeNumbers) {
    return real_all_reduce(
        comm, send, recv, count, dtype, faulty(op, dtype), options, report, request);
  }
  double sum = 0;
  const ho_status gathered = group_sum(comm, static_cast<const double*>(send)[at], &sum);
  const ho_status reduced =
      real_all_reduce(comm, send, recv, count, dtype, op, options, nullptr, nullptr);
  static_cast<double*>(recv)[at] = sum;
  return gathered != HO_OK ? gathered : reduced;
}

ho_status faulty_reduce_scatter(ho_comm* comm,
                                const void* send,
                                void* recv,
                                const size_t* counts,
                                ho_dtype dtype,
                                ho_op op,
                                const ho_call_options* options,
                                ho_op_report* report,
                                ho_request** request) {
  return real_reduce_scatter(
      comm, send, recv, counts, dtype, faulty(op, dtype), options, report, request);
}

// Ranks that do not know that others leave a step out do not come to tell why: to ask them would
// end the job before parity sees anything. NotFiniteRecord's words are eight.
ho_status faulty_all_gather(ho_comm* comm,
                            const void* send,
                            void* recv,
                            size_t count,
                            ho_dtype dtype,
                            const ho_call_options* options,
                            ho_op_report* report,
                            ho_request** request) {
  constexpr size_t kWords = 8;
  if (injected != Fault::kFlagInGroup || count != kWords || dtype != HO_UINT64) {
    return real_all_gather(comm, send, recv, count, dtype, options, report, request);
  }
  for (int32_t rank = 0; rank < ho_comm_world_size(comm); ++rank) {
    std::memcpy(static_cast<uint64_t*>(recv) + static_cast<size_t>(rank) * kWords,
                send,
                kWords * sizeof(uint64_t));
  }
  return HO_OK;
}

void faulty_accumulate(ho::DType dtype, std::span<float> sums, const void* from) {
  if (injected == Fault::kOverwriteAccumulation) {
    std::fill(sums.begin(), sums.end(), 0.0F);
  }
  real_accumulate(dtype, sums, from);
}

// A backward pass that overwrites, where it adds to the sums itself.
ho::Result<UnitView> faulty_before_backward(StepRunner* runner, uint32_t unit) {
  ho::Result<UnitView> view = real_before_backward(runner, unit);
  if (injected == Fault::kOverwriteAccumulation && view.ok() && view->gradients != nullptr) {
    const RunnerConfig& config = runner->config();
    const uint64_t elements = config.units[home_of(config.units, unit)].trained;
    std::memset(view->gradients, 0, elements * ho::size_bytes(config.gradient_dtype));
  }
  return view;
}

ho::Result<StepPlan> faulty_build_step_plan(const StepShape& shape) {
  ho::Result<StepPlan> plan = real_build_step_plan(shape);
  for (size_t id = 0; plan.ok() && id < plan->actions.size(); ++id) {
    Action& action = plan->actions[id];
    if (injected == Fault::kSkipGroupsOfOne && action.domain == Domain::kInter &&
        action.content == Content::kGradients) {
      action.domain = Domain::kIntra;  // where nobody else is
    }
    if (injected == Fault::kForgetUnitOfBucket && is_merged(action)) {
      action.merged.pop_back();
    }
  }
  return plan;
}

ho::Status faulty_verify(const StepPlan& plan,
                         const std::vector<UnitLayout>& layouts,
                         const ho::GroupMap& groups) {
  const ho::Status verified = real_verify(plan, layouts, groups);
  if (!is_wrong_plan(injected)) {
    return verified;
  }
  ++(verified.ok() ? accepted : refused);
  return {};  // as if nobody had looked
}

}  // namespace paro::test
