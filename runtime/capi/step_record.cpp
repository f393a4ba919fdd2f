// From a runner and its last step to what a step log keeps.
#include "capi/step_record.hpp"

#include <chrono>
#include <variant>

#include "run/budget.hpp"

namespace paro::capi {
namespace {

double seconds(uint64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

}  // namespace

observe::StepRecord record_of(const StepRunner& runner, const StepReport& report) {
  observe::StepRecord record;
  record.unix_time =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  record.rank = runner.self().value();
  record.strategy = letters(runner.config().strategy);
  record.step = report.step;
  record.micro_batches = report.micro_batches;
  record.outcome_step = report.outcome.step;
  record.applied = report.outcome.applied;
  record.norm = report.outcome.norm;
  record.loss_scale = report.loss_scale;
  record.learning_rate =
      std::visit([](const auto& rule) { return rule.learning_rate; }, runner.config().rule);
  record.step_s = seconds(report.step_ns);
  record.compute_s = seconds(report.compute_ns);
  record.exposed_s = seconds(report.wait_ns);
  record.update_s = seconds(report.update_ns);
  record.hooks_s = seconds(report.hook_ns);
  record.collectives_s = seconds(report.collective_ns);
  record.intra_bytes = report.sent.intra;
  record.inter_bytes = report.sent.inter;
  record.states_bytes = runner.shards().ledger.now().total();
  record.peak_bytes = runner.shards().ledger.peak().total();
  record.predicted_bytes = predicted_use(runner.shards(), runner.plan()).total();
  record.library_bytes = runner.shards().domains->memory_bytes();
  const uint32_t interval = runner.config().drift_interval;
  record.drift_checked = interval > 0 && report.step % interval == 0;
  return record;
}

}  // namespace paro::capi
