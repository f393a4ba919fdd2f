// The end of a step: the ranks agree on it, then each updates its shards.
#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>

#include "run/step_runner.hpp"

namespace paro {

ho::Status StepRunner::decide(bool discards) {
  const auto& actions = plan().actions;
  const auto agree = std::find_if(
      actions.begin(), actions.end(), [](const Action& a) { return a.act == Act::kAgree; });
  discards_ = discards;
  scheduler_.let_agree();
  HORING_TRY(finish({scheduler_.step(), ActionId(static_cast<size_t>(agree - actions.begin()))}));
  const std::string step = name(scheduler_.step());
  HORING_TRY(shards_.break_unless_ok(ends_->finish(), step));
  if (agreed_.discards() == (discards ? groups().world_size() : 0)) {
    return {};
  }
  HORING_ASSIGN(const auto all, shards_.gather(discards ? 1 : 0, step));
  const auto first = [&](uint64_t wanted) {
    const auto index = static_cast<size_t>(std::find(all.begin(), all.end(), wanted) - all.begin());
    return "rank " + std::to_string(shards_.ranks()[index].value());
  };
  return shards_.break_on_all("rank " + std::to_string(self().value()) + ", " + step + ": " +
                              first(1) + " calls discard after its last micro-batch, " + first(0) +
                              " ends the step; all ranks must end a step by the same call");
}

// All ranks have the sums that say that rates differ, so all of them come here.
ho::Status StepRunner::refuse_rates() {
  const std::string step = name(scheduler_.step());
  HORING_ASSIGN(const auto all,
                shards_.gather(std::bit_cast<uint64_t>(learning_rate(config())),
                               step + ", comparing learning rates"));
  const std::vector<ho::GlobalRank> ranks = shards_.ranks();
  const auto text = [&](size_t index) {
    std::array<char, 32> rate{};  // the shortest that tells it from all others
    std::to_chars(rate.data(), rate.data() + rate.size(), std::bit_cast<double>(all[index]));
    return "rank " + std::to_string(ranks[index].value()) + " has " + rate.data();
  };
  const auto other =
      std::find_if(all.begin(), all.end(), [&](uint64_t rate) { return rate != all.front(); });
  return shards_.break_on_all("rank " + std::to_string(self().value()) + ", " + step +
                              ": the ranks do not have the same learning rate: " + text(0) + ", " +
                              text(static_cast<size_t>(other - all.begin()) % all.size()) +
                              "; set the same on all ranks");
}

// The same: where any rank was given values, all of them come here.
ho::Status StepRunner::compare_loads() {
  const std::string step = name(scheduler_.step());
  const ho::Status same =
      loads_.agree(shards_, "rank " + std::to_string(self().value()) + ", " + step);
  if (same.code() == ho::StatusCode::kMismatch) {
    return shards_.break_on_all(same.message());
  }
  HORING_TRY(shards_.break_unless_ok(same, step + ", comparing what was loaded"));
  loads_.forget();
  return {};
}

ho::Status StepRunner::update_all(bool applies, double factor) {
  ho::Status sent;  // of what units that are updated start
  for (StepAction step_action = scheduler_.computation(); step_action.step == scheduler_.step();
       step_action = scheduler_.computation()) {
    const uint32_t unit = scheduler_.action(step_action).unit;
    const auto since = std::chrono::steady_clock::now();
    if (applies) {
      if (const ho::Status status = updater_.update(shards_, unit, factor); !status.ok()) {
        return break_with(status, step_action);
      }
    }
    shards_.units[unit].sums.zero();
    scheduler_.end_computation();
    watch(step_action, since);
    // The ranks have agreed on this step: should a connection break now, all units are updated yet,
    // so that the ranks can rejoin.
    if (sent.ok()) {
      sent = pump();
    }
  }
  updater_.end_step(applies);
  return sent;
}

ho::Result<StepReport> StepRunner::step() {
  HORING_TRY(broken());
  const auto start = std::chrono::steady_clock::now();
  const auto waited = counted_.wait_ns;
  if (computing_ ||
      scheduler_.computations_over() != 2 * config().units.size() * plan().shape.micro_batches) {
    HORING_TRY(expect(Act::kUpdate, 0, true));
    return ho::Status(ho::StatusCode::kInvalidArgument, "step() before any micro-batch");
  }
  HORING_TRY(decide(false));
  if (!agreed_.all_have_rate(learning_rate(config()), groups().world_size())) {
    return refuse_rates();
  }
  if (agreed_.any_loaded()) {
    HORING_TRY(compare_loads());
  }
  const std::string step = name(scheduler_.step());
  double norm = std::sqrt(agreed_.squared_norm());
  const bool applies = agreed_.all_finite() && std::isfinite(norm);
  if (!applies) {
    // All ranks know by now that the step is left out, so all of them come here.
    const ho::Result<double> reported =
        not_finite_.compare(shards_, step, updater_.scale().shrinks());
    HORING_TRY(shards_.break_unless_ok(reported.status(), "telling why " + step + " is left out"));
    norm = *reported;
  }
  const double scale = updater_.scale().value();
  const double factor = updater_.averaging_factor(shards_, scheduler_.micro_batches()) *
                        clip_factor(norm, config().max_norm);
  const auto updating = std::chrono::steady_clock::now();
  HORING_TRY(update_all(applies, factor));
  StepReport report = counted_;
  const auto end = std::chrono::steady_clock::now();
  report.update_ns = ns_between(updating, end);
  report.hook_ns += ns_between(start, updating) - (report.wait_ns - waited);
  report.step_ns = ns_between(step_since_, end);
  report.micro_batches = scheduler_.micro_batches();
  report.applied = applies;
  report.norm = norm;
  report.loss_scale = scale;
  report.signalled = agreed_.any_signals();
  scheduler_.end_step();
  report.step = scheduler_.step().value;
  counted_ = {};
  step_since_ = end;
  not_finite_ = {};
  if (config().drift_interval > 0 && report.step % config().drift_interval == 0) {
    HORING_TRY(check_drift());
  }
  return report;
}

ho::Status StepRunner::synchronize() {
  HORING_TRY(broken());
  const auto& actions = plan().actions;
  for (ActionId id; scheduler_.step() > StepIndex{} && id.at() < actions.size(); ++id) {
    if (actions[id.at()].phase == Phase::kSyncP) {
      HORING_TRY(finish({previous(scheduler_.step()), id}));
    }
  }
  return {};
}

}  // namespace paro
