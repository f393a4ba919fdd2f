#include "cli/paro/job/step_account.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "run/budget.hpp"

namespace paro::tool {
namespace {

double seconds(uint64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

MemoryUse fullest_of_all(horing::Communicator& job, const MemoryUse& mine) {
  std::vector<uint64_t> bytes(static_cast<size_t>(job.world_size()) * kPurposeCount);
  job.all_gather(std::span<const uint64_t>(mine.bytes), std::span<uint64_t>(bytes));
  MemoryUse fullest;
  for (auto rank = bytes.begin(); rank != bytes.end(); rank += kPurposeCount) {
    MemoryUse use;
    std::copy_n(rank, kPurposeCount, use.bytes.begin());
    if (use.total() > fullest.total()) {
      fullest = use;
    }
  }
  return fullest;
}

}  // namespace

void StepAccount::add(const StepReport& report) {
  step_ += seconds(report.step_ns);
  compute_ += seconds(report.compute_ns);
  wait_ += seconds(report.wait_ns);
  update_ += seconds(report.update_ns);
  hooks_ += seconds(report.hook_ns);
  hook_count_ += static_cast<double>(report.hooks);
  ++steps_;
}

StepTimes StepAccount::times(horing::Communicator& job, uint32_t parts) const {
  const double steps = std::max<double>(steps_, 1) / parts;
  std::array<double, 5> means{
      step_ / steps, compute_ / steps, wait_ / steps, update_ / steps, hooks_ / steps};
  double least_wait = means[2];
  job.all_reduce(std::span<double>(means), HO_AVG);
  job.all_reduce(std::span<double>(&least_wait, 1), HO_MIN);
  StepTimes times;
  times.step = means[0];
  times.compute = means[1];
  times.exposed = least_wait;
  times.idle = means[2] - least_wait;
  times.update = means[3];
  times.hooks = means[4];
  times.per_hook = means[4] * steps / std::max(hook_count_, 1.0);
  return times;
}

Traffic sent_by_all(horing::Communicator& job, const StepRunner& runner, uint64_t steps) {
  std::array<uint64_t, 2> sent{};
  for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kSyncG, Phase::kSyncP}) {
    sent[0] += runner.sent(phase).intra;
    sent[1] += runner.sent(phase).inter;
  }
  job.all_reduce(std::span<uint64_t>(sent), HO_SUM);
  return {sent[0] / steps, sent[1] / steps};
}

Traffic planned_traffic(const StepRunner& runner) {
  const RunnerConfig& config = runner.config();
  const StepTraffic traffic(
      runner.plan(),
      runner.shards().layouts,
      runner.groups(),
      runner.groups(),
      {ho::size_bytes(config.parameter_dtype), ho::size_bytes(sent_dtype(config))});
  return traffic.total();
}

PeakMemory peak_memory(horing::Communicator& job, const StepRunner& runner) {
  return {fullest_of_all(job, predicted_use(runner.shards(), runner.plan())),
          fullest_of_all(job, runner.shards().ledger.peak())};
}

}  // namespace paro::tool
