#include "cli/paro/plan_command.hpp"

#include <chrono>
#include <cstdio>
#include <exception>
#include <horing/communicator.hpp>
#include <utility>

#include "base/escaped.hpp"
#include "cli/paro/job/measure.hpp"
#include "cli/paro/plan_arguments.hpp"
#include "cli/paro/report.hpp"
#include "cli/paro/validation/report.hpp"
#include "cli/subcommands/output_file.hpp"

namespace paro::tool {
namespace {

int fail(const ho::Status& status) {
  std::fprintf(
      stderr, "paro plan: %s\n", ho::escaped(status.message(), status.message().size()).c_str());
  return status.code() == ho::StatusCode::kInvalidArgument ? 2 : 1;
}

constexpr const char* kPlan = "paro plan";

std::string answer_text(const PlanArguments& arguments, const Report& report) {
  return arguments.verbose ? table_text(report) : summary_text(report);
}

std::string answer_text(const PlanArguments& /*arguments*/, const Sweep& sweep) {
  return sweep_text(sweep);
}

// A Report or a Sweep.
template <typename Answer>
int print(const PlanArguments& arguments, const Answer& answer) {
  if (arguments.csv == "-") {
    std::fputs(csv_text(answer).c_str(), stdout);
    return 0;
  }
  std::fputs((arguments.json ? json_text(answer) : answer_text(arguments, answer)).c_str(), stdout);
  const bool written =
      arguments.csv.empty() || ho::write_file(kPlan, "--csv", arguments.csv, csv_text(answer));
  return written ? 0 : 1;
}

int show(PlanArguments arguments, std::vector<std::string> notes) {
  const auto report = report_of(std::move(arguments.plan), std::move(notes));
  if (!report.ok()) {
    return fail(report.status());
  }
  const bool alone = arguments.program_path.empty() && arguments.csv.empty() && !arguments.json;
  if (report->program && alone) {
    std::fputs(report->program->c_str(), stdout);
    return 0;
  }
  return ho::write_file(kPlan, "--export-to", arguments.program_path, report->program.value_or(""))
             ? print(arguments, *report)
             : 1;
}

// On standard error, how far it is, from two seconds on and every two seconds.
class ProgressLines {
 public:
  void operator()(size_t plans) {
    constexpr std::chrono::seconds kSilent{2};
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ >= kSilent) {
      last_ = now;
      std::fprintf(stderr, "paro plan: --sweep: %zu plans so far\n", plans);
    }
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

int show_sweep(const PlanArguments& arguments) {
  const auto sweep = sweep_of(*arguments.sweep, ProgressLines());
  return sweep.ok() ? print(arguments, *sweep) : fail(sweep.status());
}

int show_measured(PlanArguments arguments, const MeasuredJob& measured) {
  std::vector<std::string> notes;
  const auto facts = facts_of(measured, notes);
  if (!facts.ok()) {
    return fail(facts.status());
  }
  const ClusterFacts all = merged(arguments.plan.facts, *facts);
  if (!ho::write_file(kPlan, "--write", arguments.cluster_path, cluster_text(all))) {
    return 1;
  }
  if (const ho::Status status = apply(all, arguments.plan.request); !status.ok()) {
    return fail(status);
  }
  if (const ho::Status status = complete(arguments.plan); !status.ok()) {
    return fail(status);
  }
  return show(std::move(arguments), std::move(notes));
}

// Rank 0 prints for the job. Its launcher may end all ranks when one rank has failed, so no rank
// leaves before rank 0 has printed.
int measure_and_show(const PlanArguments& arguments) {
  try {
    auto job = horing::Communicator::create();
    MeasuredJob measured = measure_job(job);
    if (!arguments.plan.facts.slowdown) {  // else it is known, and would not count
      measured.slowdown = measure_slowdown(job);
    }
    int32_t status = job.rank() == 0 ? show_measured(arguments, measured) : 0;
    job.broadcast(std::span<int32_t>(&status, 1), 0);
    return status;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "paro plan: --measure: %s\n", error.what());
    return 1;
  }
}

int validate(bool json) {
  const auto tables = published_tables();
  if (!tables.ok()) {
    return fail(tables.status());
  }
  const auto predictions = Validation(*tables).predict(kGpuEffects);
  if (!predictions.ok()) {
    return fail(predictions.status());
  }
  const auto memory = predict_memory(*tables);
  if (!memory.ok()) {
    return fail(memory.status());
  }
  const auto text = json ? validation_json : validation_text;
  std::fputs(text({*tables, *predictions, *memory, kGpuEffects}).c_str(), stdout);
  return 0;
}

int fit(bool json) {
  const auto tables = published_tables();
  if (!tables.ok()) {
    return fail(tables.status());
  }
  const auto effects = fitted(*tables, kGpuEffects);
  if (!effects.ok()) {
    return fail(effects.status());
  }
  std::fputs((json ? fit_json : fit_text)(*effects, kGpuEffects).c_str(), stdout);
  return 0;
}

}  // namespace

int plan_command(int argc, const char* const* argv) {
  ho::Parsed<PlanArguments> parsed = parse_plan_arguments(argc, argv);
  if (parsed.exit_status) {
    return *parsed.exit_status;
  }
  if (parsed.options.validate) {
    return validate(parsed.options.json);
  }
  if (parsed.options.fit) {
    return fit(parsed.options.json);
  }
  if (parsed.options.plan.measure) {
    return measure_and_show(parsed.options);
  }
  const std::string& csv = parsed.options.csv;
  if (csv != "-" && !ho::can_write_file(kPlan, "--csv", csv)) {
    return 1;
  }
  return parsed.options.sweep ? show_sweep(parsed.options) : show(std::move(parsed.options), {});
}

}  // namespace paro::tool
