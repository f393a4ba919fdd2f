// A runner's life and its steps, as paro.h has them. Checks what C callers can get wrong before C++
// sees it: null pointers, struct sizes of other versions, handles of another process.
#include <unistd.h>

#include <utility>

#include "capi/arguments.hpp"
#include "capi/boundary.hpp"
#include "capi/options.hpp"
#include "capi/step_record.hpp"
#include "run/agreement.hpp"

namespace paro::capi {
namespace {

ho::Result<Prepared> prepare_for(const paro_runner* const* runner,
                                 const ho_comm* comm,
                                 const paro_runner_options* options,
                                 const paro_unit* units,
                                 size_t unit_count) {
  if (runner == nullptr) {
    return ho::invalid("paro_runner_create: a null place for the runner");
  }
  return prepare(comm, options, units, unit_count);
}

void write_view(paro_unit_view* target, const UnitView& view, const UnitShape& shape) {
  paro_unit_view values = PARO_UNIT_VIEW_INIT;
  values.trained = view.trained;
  values.frozen = view.frozen;
  values.gradients = view.gradients;
  values.trained_count = shape.trained;
  values.frozen_count = shape.frozen;
  write_out(target, values);
}

// before_forward and before_backward.
template <typename Hook>
ho_status before(
    paro_runner* runner, uint32_t unit, paro_unit_view* view, const char* what, const Hook& hook) {
  return guarded([&]() -> ho::Status {
    HORING_TRY(check_runner(runner, what));
    HORING_TRY(check_out(view, "paro_unit_view"));
    HORING_ASSIGN(const UnitView seen, hook(*runner->runner));
    const std::vector<UnitShape>& units = runner->runner->config().units;
    write_view(view, seen, units[home_of(units, unit)]);
    return {};
  });
}

// Calls that return nothing but a status.
template <typename Call>
ho_status call_on(paro_runner* runner, const char* what, const Call& call) {
  return guarded([&]() -> ho::Status {
    HORING_TRY(check_runner(runner, what));
    return call(*runner->runner);
  });
}

paro_step_report to_c(const StepReport& report) {
  paro_step_report c = PARO_STEP_REPORT_INIT;
  c.step = report.step;
  c.applied = report.outcome.applied ? 1 : 0;
  c.norm = report.outcome.norm;
  c.loss_scale = report.loss_scale;
  c.hooks = report.hooks;
  c.hook_ns = report.hook_ns;
  c.wait_ns = report.wait_ns;
  c.update_ns = report.update_ns;
  c.step_ns = report.step_ns;
  c.compute_ns = report.compute_ns;
  c.collective_ns = report.collective_ns;
  c.intra_bytes = report.sent.intra;
  c.inter_bytes = report.sent.inter;
  c.outcome_step = report.outcome.step;
  return c;
}

// A step, however it ends; and what is done after each.
template <typename Step>
ho_status step(paro_runner* runner, paro_step_report* report, const char* what, const Step& end) {
  return call_on(runner, what, [&](StepRunner& of) -> ho::Status {
    if (report != nullptr) {
      HORING_TRY(check_out(report, "paro_step_report"));
    }
    runner->steering->before_step(of);
    HORING_ASSIGN(const StepReport done, end(of));
    if (runner->log.has_value()) {
      runner->log->write(record_of(of, done));
    }
    if (report != nullptr) {
      write_out(report, to_c(done));
    }
    ho::Status steered = runner->steering->after_step(runner->runner, done);
    if (runner->runner == nullptr) {
      runner->lost = steered;
    }
    return steered;
  });
}

ho::Result<std::span<const float>> values_of(const float* values, size_t count, const char* which) {
  if (values == nullptr && count > 0) {
    return ho::invalid("paro_runner_load: a null array of " + std::to_string(count) + " " + which +
                       " elements");
  }
  return std::span<const float>(values, count);
}

// A read of a whole state. A null array counts as an array without room, so that the other ranks
// get an error instead of waiting.
template <typename Read>
ho_status read_into(
    paro_runner* runner, float* values, size_t count, const char* what, const Read& read) {
  return call_on(runner, what, [&](StepRunner& of) -> ho::Status {
    const bool null = values == nullptr && count > 0;
    ho::Status status = read(of, std::span<float>(values, null ? 0 : count));
    if (null && of.broken().ok()) {
      return ho::invalid(std::string(what) + ": a null array for " + std::to_string(count) +
                         " elements");
    }
    return status;
  });
}

ho::Status check_rate(const RunnerConfig& config, double rate) {
  if (config.optimizer) {
    return rate == rate ? ho::Status() : ho::invalid("a learning rate that is not a number");
  }
  Rule rule = config.rule;
  std::visit([rate](auto& one) { one.learning_rate = rate; }, rule);
  return check(rule);
}

}  // namespace
}  // namespace paro::capi

using namespace paro;
using namespace paro::capi;

extern "C" {

ho_status paro_runner_create(ho_comm* comm,
                             const paro_runner_options* options,
                             const paro_unit* units,
                             size_t unit_count,
                             paro_runner** runner) {
  return guarded([&]() -> ho::Status {
    if (runner != nullptr) {
      *runner = nullptr;
    }
    if (comm == nullptr) {
      return ho::invalid("paro_runner_create: a null communicator");
    }
    auto prepared = prepare_for(runner, comm, options, units, unit_count);
    if (!prepared.ok()) {
      return all_ok(comm, prepared.status());
    }
    auto made = std::make_unique<paro_runner>();
    made->process = ::getpid();
    made->memory = std::move(prepared->memory);
    made->frozen_as_parameters = prepared->frozen_as_parameters;
    made->steering.emplace(std::move(prepared->steering), prepared->frozen_as_parameters);
    if (prepared->log.writes()) {
      made->log = std::move(prepared->log);
    }
    HORING_ASSIGN(
        made->runner,
        StepRunner::create(comm, prepared->groups, std::move(prepared->config), *made->memory));
    *runner = made.release();
    return {};
  });
}

void paro_runner_destroy(paro_runner* runner) {
  (void)guarded([&]() -> ho::Status {
    // In a forked child everything behind the handle is the parent's, and left alone.
    if (runner == nullptr || runner->process != ::getpid()) {
      return {};
    }
    const std::unique_ptr<paro_runner> owned(runner);
    return {};
  });
}

ho_status paro_runner_load(paro_runner* runner,
                           uint32_t unit,
                           const float* trained,
                           size_t trained_count,
                           const float* frozen,
                           size_t frozen_count) {
  return call_on(runner, "paro_runner_load", [&](StepRunner& of) -> ho::Status {
    const auto first = values_of(trained, trained_count, "trained");
    const auto second = values_of(frozen, frozen_count, "frozen");
    if (first.ok() && second.ok()) {
      return of.between_steps().load(unit, *first, *second);
    }
    // As the other ranks, whose arrays may be right: what the last step started comes to its end.
    static_cast<void>(of.between_steps().load(unit, {}, {}));
    return first.ok() ? second.status() : first.status();
  });
}

ho_status paro_runner_before_forward(paro_runner* runner, uint32_t unit, paro_unit_view* view) {
  return before(runner, unit, view, "paro_runner_before_forward", [&](StepRunner& of) {
    return of.before_forward(unit);
  });
}

ho_status paro_runner_after_forward(paro_runner* runner, uint32_t unit) {
  return call_on(
      runner, "paro_runner_after_forward", [&](StepRunner& of) { return of.after_forward(unit); });
}

ho_status paro_runner_before_backward(paro_runner* runner, uint32_t unit, paro_unit_view* view) {
  return before(runner, unit, view, "paro_runner_before_backward", [&](StepRunner& of) {
    return of.before_backward(unit);
  });
}

ho_status paro_runner_after_backward(paro_runner* runner, uint32_t unit) {
  return call_on(runner, "paro_runner_after_backward", [&](StepRunner& of) {
    return of.after_backward(unit);
  });
}

ho_status paro_runner_step(paro_runner* runner, paro_step_report* report) {
  return step(runner, report, "paro_runner_step", [](StepRunner& of) { return of.step(); });
}

ho_status paro_runner_step_early(paro_runner* runner, paro_step_report* report) {
  return step(
      runner, report, "paro_runner_step_early", [](StepRunner& of) { return of.step_early(); });
}

ho_status paro_runner_flush(paro_runner* runner, uint64_t timeout_ms, paro_step_report* report) {
  return call_on(runner, "paro_runner_flush", [&](StepRunner& of) -> ho::Status {
    if (report != nullptr) {
      HORING_TRY(check_out(report, "paro_step_report"));
    }
    HORING_ASSIGN(const auto last, of.flush(timeout_ms));
    if (!last) {
      return {ho::StatusCode::kTimeout,
              "paro_runner_flush: the last step's outcome has not come within " +
                  std::to_string(timeout_ms) +
                  " ms; the runner goes on, and the call may be made again"};
    }
    if (report != nullptr) {
      write_out(report, to_c(*last));
    }
    return {};
  });
}

ho_status paro_runner_discard(paro_runner* runner) {
  return call_on(runner, "paro_runner_discard", [](StepRunner& of) { return of.discard(); });
}

ho_status paro_runner_set_micro_batches(paro_runner* runner, uint32_t micro_batches) {
  return call_on(runner, "paro_runner_set_micro_batches", [&](StepRunner& of) {
    return of.set_micro_batches(micro_batches);
  });
}

ho_status paro_runner_poll(paro_runner* runner) {
  return call_on(runner, "paro_runner_poll", [](StepRunner& of) { return of.poll(); });
}

ho_status paro_runner_synchronize(paro_runner* runner) {
  return call_on(
      runner, "paro_runner_synchronize", [](StepRunner& of) { return of.synchronize(); });
}

ho_status paro_runner_set_learning_rate(paro_runner* runner, double rate) {
  return call_on(runner, "paro_runner_set_learning_rate", [&](StepRunner& of) -> ho::Status {
    HORING_TRY(check_rate(of.config(), rate));
    of.set_learning_rate(rate);
    return {};
  });
}

ho_status paro_runner_read_masters(paro_runner* runner,
                                   uint32_t unit,
                                   float* trained,
                                   size_t count) {
  return read_into(runner,
                   trained,
                   count,
                   "paro_runner_read_masters",
                   [unit](StepRunner& of, std::span<float> values) {
                     return of.between_steps().read_masters(unit, values);
                   });
}

ho_status paro_runner_read_frozen(paro_runner* runner, uint32_t unit, float* frozen, size_t count) {
  return read_into(runner,
                   frozen,
                   count,
                   "paro_runner_read_frozen",
                   [unit](StepRunner& of, std::span<float> values) {
                     return of.between_steps().read_frozen(unit, values);
                   });
}

ho_status paro_runner_check_drift(paro_runner* runner) {
  return call_on(runner, "paro_runner_check_drift", [](StepRunner& of) {
    return of.between_steps().check_drift();
  });
}

ho_status paro_runner_rejoin(paro_runner* runner, ho_comm* comm) {
  return call_on(runner, "paro_runner_rejoin", [&](StepRunner& of) -> ho::Status {
    if (comm == nullptr) {
      return ho::invalid("paro_runner_rejoin: a null communicator");
    }
    if (runner->saver != nullptr) {  // its communicator has failed with the others
      runner->lost_save = runner->saver->wait();
      runner->saver.reset();
    }
    return of.rejoin(comm);
  });
}

ho_status paro_runner_abort(paro_runner* runner, const char* reason) {
  return call_on(runner, "paro_runner_abort", [&](StepRunner& of) -> ho::Status {
    of.abort(reason == nullptr ? "" : reason);
    return {};
  });
}

}  // extern "C"
