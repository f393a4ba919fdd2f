#include "steering/steering.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "run/agreement.hpp"

namespace paro::steering {
namespace {

using Clock = std::chrono::steady_clock;

uint64_t number_of(const Strategy& strategy) {
  const auto& all = all_strategies();
  return static_cast<uint64_t>(std::find(all.begin(), all.end(), strategy) - all.begin());
}

// Rank 0's values; every rank passes equally many.
ho::Result<std::vector<uint64_t>> of_first(ho_comm* comm,
                                           const std::vector<uint64_t>& mine,
                                           uint64_t timeout_ms) {
  HORING_ASSIGN(std::vector<uint64_t> all, all_gather_values(comm, mine, timeout_ms));
  all.resize(mine.size());
  return all;
}

// At the level that is on by default: the user who requested the change waits for this line.
void tell(const StepRunner& runner, const Links& links, const std::optional<Strategy>& best) {
  constexpr double kMega = 1e6;
  const std::string present = letters(runner.config().strategy);
  ho::log_warn("links carry {:.0f} MB/s a rank inside nodes, {:.1f} MB/s a NIC between them: {}",
               links.intra_bytes_per_s / kMega,
               links.inter_bytes_per_s / kMega,
               best ? letters(*best) + " is better than " + present : present + " stays");
}

}  // namespace

Steering::Steering(Settings settings, bool frozen_as_parameters)
    : settings_(std::move(settings)),
      frozen_as_parameters_(frozen_as_parameters),
      links_(settings_.interval) {
  if (!settings_.file.empty()) {
    file_.emplace(settings_.file);
  }
}

uint64_t Steering::budget_of(const StepRunner& runner) const {
  return budget_.value_or(runner.config().budget_bytes);
}

void Steering::refuse(const StepRunner& runner, const ho::Status& why) const {
  ho::log_warn("{}: refused, training goes on with {}: {}",
               file_->path(),
               letters(runner.config().strategy),
               why.message());
}

// What is not possible is refused here and not sent to the others.
void Steering::take(const StepRunner& runner, const RequestedStrategy& request) {
  const uint64_t budget = request.budget_bytes.value_or(budget_of(runner));
  const Strategy strategy = request.strategy.value_or(runner.config().strategy);
  const bool chooses = !request.strategy && settings_.automatic;
  const ho::Status possible =
      chooses ? check_any_possible(runner, budget, frozen_as_parameters_)
              : check_possible(
                    runner, candidate(strategy, runner.config(), frozen_as_parameters_), budget);
  if (!possible.ok()) {
    refuse(runner, possible);
    return;
  }
  budget_ = request.budget_bytes ? request.budget_bytes : budget_;
  if (chooses) {
    order_ = {Act::kChoose, {}};
  } else if (strategy != runner.config().strategy) {
    order_ = {Act::kTake, strategy};
  } else {
    order_ = {};
    ho::log_info("{}: the strategy is {} already", file_->path(), letters(strategy));
  }
}

void Steering::before_step(StepRunner& runner) {
  if (runner.self().value() != 0) {
    return;
  }
  if (file_) {
    if (const auto request = file_->look(); request && request->ok()) {
      take(runner, **request);
    } else if (request) {
      refuse(runner, request->status());
    }
  }
  runner.signal(order_.act != Act::kNothing);
}

ho::Result<Steering::Order> Steering::chosen(ho_comm* comm, StepRunner& runner) const {
  HORING_TRY(runner.synchronize());
  const auto measured = measure_links(comm, runner.groups());
  std::optional<Strategy> best;
  ho::Status status = measured.status();
  if (status.ok() && runner.self().value() == 0) {
    const auto answer = better_strategy(
        runner, *measured, {budget_of(runner), links_.compute_s(), frozen_as_parameters_});
    status = answer.status();
    if (answer.ok()) {
      best = *answer;
      tell(runner, measured->links, best);
    }
  }
  const uint64_t timeout_ms = runner.config().timeout_ms;
  HORING_TRY(all_ok(comm, status, timeout_ms));
  HORING_ASSIGN(const auto words,
                of_first(comm, {best ? uint64_t{1} : 0, best ? number_of(*best) : 0}, timeout_ms));
  return words[0] == 0 ? Order{}
                       : Order{Act::kTake, all_strategies().at(words[1] % kStrategyCount)};
}

ho::Status Steering::change(std::unique_ptr<StepRunner>& runner,
                            const Strategy& strategy,
                            uint64_t budget_bytes) const {
  const auto start = Clock::now();
  const Strategy before = runner->config().strategy;
  const uint64_t bytes_before = runner->shards().ledger.now().total();
  const Candidate wanted = candidate(strategy, runner->config(), frozen_as_parameters_);
  HORING_TRY(change_strategy(runner, NewStrategy{strategy, wanted.frozen, budget_bytes}));
  if (runner->self().value() == 0) {
    // At the level that is on by default: the user who requested the change waits for this line.
    ho::log_warn("strategy {} -> {} after {} steps; states {} -> {} bytes on rank 0, {:.1f} ms",
                 letters(before),
                 letters(strategy),
                 runner->updater().applied_steps(),
                 bytes_before,
                 runner->shards().ledger.now().total(),
                 std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  return {};
}

ho::Status Steering::apply_request(std::unique_ptr<StepRunner>& runner) {
  const uint64_t timeout_ms = runner->config().timeout_ms;
  HORING_ASSIGN(const OwnedComm comm,
                runner->between_steps().new_communicator("auto_strategy", timeout_ms));
  // A budget in the file holds for all ranks.
  HORING_ASSIGN(const auto words,
                of_first(comm.get(),
                         {static_cast<uint64_t>(order_.act),
                          number_of(order_.strategy),
                          budget_ ? uint64_t{1} : 0,
                          budget_.value_or(0)},
                         timeout_ms));
  const uint64_t budget = words[2] == 1 ? words[3] : runner->config().budget_bytes;
  Order order{Act::kTake, all_strategies().at(words[1] % kStrategyCount)};
  if (words[0] == static_cast<uint64_t>(Act::kChoose)) {
    HORING_ASSIGN(order, chosen(comm.get(), *runner));
  }
  return order.act == Act::kTake ? change(runner, order.strategy, budget) : ho::Status();
}

ho::Status Steering::after_step(std::unique_ptr<StepRunner>& runner, const StepReport& report) {
  const bool first = runner->self().value() == 0;
  const auto changed = links_.after_step(report);
  if (first && changed && settings_.automatic) {
    ho::log_warn("collectives take {:.2f} ns per byte, {:.2f} before: choosing the best strategy",
                 changed->now_ns_per_byte,
                 changed->before_ns_per_byte);
    order_ = {Act::kChoose, {}};
  }
  if (!report.outcome.signalled) {
    return {};
  }
  const ho::Status status = apply_request(runner);
  order_ = {};
  links_.begin_anew();
  if (!status.ok() && first) {
    ho::log_warn("the strategy was not changed: {}", status.message());
  }
  return runner == nullptr ? status : ho::Status();
}

}  // namespace paro::steering
