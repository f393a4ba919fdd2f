// paro-bench: training steps of libparo's strategies and of what users run today, side by side.
#include <chrono>
#include <cmath>
#include <cstdio>

#include "bench/paro_bench/bench_options.hpp"
#include "bench/paro_bench/bench_report.hpp"
#include "bench/paro_bench/drive.hpp"
#include "bench/paro_bench/trace.hpp"
#include "cli/subcommands/output_file.hpp"
#include "cli/subcommands/standard_output.hpp"

namespace paro::bench {
namespace {

constexpr const char* kProgram = "paro-bench";

using Clock = std::chrono::steady_clock;

// On rank 0's standard error; the work that is left as if it took as long as what was done.
class Progress {
 public:
  Progress(bool speaks, size_t total) : speaks_(speaks), total_(total) {}

  void begins(uint32_t round, const System& system, double factor) {
    if (!speaks_) {
      return;
    }
    const double so_far = std::chrono::duration<double>(Clock::now() - start_).count();
    std::string left;
    if (done_ > 0) {
      const auto done = static_cast<double>(done_);
      left = ", " +
             std::to_string(std::lround(so_far / done * (static_cast<double>(total_) - done))) +
             " s left";
    }
    std::fprintf(stderr,
                 "[%zu/%zu] %.0f s%s: round %u, %s, computation x%g\n",
                 done_ + 1,
                 total_,
                 so_far,
                 left.c_str(),
                 round + 1,
                 system.name.c_str(),
                 factor);
    ++done_;
  }

 private:
  bool speaks_;
  size_t total_;
  size_t done_ = 0;
  Clock::time_point start_ = Clock::now();
};

Workload load_of(const BenchOptions& options, double factor) {
  return *workload_of(options.workload, factor);  // the options were refused where it cannot be
}

std::vector<Outcome> empty_outcomes(const BenchOptions& options, const Driver& driver, int ranks) {
  std::vector<Outcome> outcomes;
  for (const double factor : options.compute_factors) {
    for (const System& system : options.systems) {
      Outcome outcome;
      outcome.system = system;
      outcome.compute_factor = factor;
      outcome.batch =
          double{1} * ranks * options.workload.micro_batch * options.workload.accumulation;
      outcome.planned = driver.planned(system, load_of(options, factor));
      outcomes.push_back(std::move(outcome));
    }
  }
  return outcomes;
}

// The systems take turns, so that other work of the machine affects all of them equally.
void measure(horing::Communicator& job,
             const BenchOptions& options,
             const Driver& driver,
             std::vector<Outcome>& outcomes,
             TraceFile& traces) {
  Progress progress(job.rank() == 0, outcomes.size() * options.rounds);
  for (uint32_t round = 0; round < options.rounds; ++round) {
    for (Outcome& outcome : outcomes) {
      progress.begins(round, outcome.system, outcome.compute_factor);
      const bool traced = !options.trace.empty() && round + 1 == options.rounds &&
                          outcome.compute_factor == options.compute_factors.front();
      StepTrace trace;
      outcome.samples.push_back(driver.sample(
          outcome.system, load_of(options, outcome.compute_factor), traced ? &trace : nullptr));
      if (traced) {
        traces.add(outcome.system.name, trace, events_of_all(job, trace));
      }
    }
  }
}

int32_t tell(horing::Communicator& job,
             const BenchOptions& options,
             const Driver& driver,
             std::span<const Outcome> outcomes,
             const TraceFile& traces) {
  std::fputs(preface(options, driver.links()).c_str(), stdout);
  for (const std::string& note : driver.notes()) {
    std::printf("note     %s\n", note.c_str());
  }
  for (const double factor : options.compute_factors) {
    std::printf("\n%s", outcomes_text(options, outcomes, factor).c_str());
  }
  const auto lines = wrong(outcomes);
  for (const std::string& line : lines) {
    std::fprintf(stderr, "paro-bench: %s\n", line.c_str());
  }
  const auto ranks = static_cast<uint32_t>(job.world_size());
  const bool written = ho::write_file(
      kProgram, "--json", options.json, outcomes_json(options, driver.links(), ranks, outcomes));
  const bool traced = ho::write_file(kProgram, "--trace", options.trace, traces.text());
  return lines.empty() && written && traced ? 0 : 1;
}

// All ranks go on with rank 0's status.
int32_t agreed(horing::Communicator& job, int32_t status) {
  job.broadcast(std::span<int32_t>(&status, 1), 0);
  return status;
}

int bench(const BenchOptions& options) {
  auto job = horing::Communicator::create();
  const bool first = job.rank() == 0;
  const bool can = !first || (ho::can_write_file(kProgram, "--json", options.json) &&
                              ho::can_write_file(kProgram, "--trace", options.trace));
  if (agreed(job, can ? 0 : 1) != 0) {
    return 1;
  }
  const Driver driver(job, options);
  std::vector<Outcome> outcomes = empty_outcomes(options, driver, job.world_size());
  TraceFile traces;
  measure(job, options, driver, outcomes, traces);
  return agreed(job, first ? tell(job, options, driver, outcomes, traces) : 0);
}

}  // namespace
}  // namespace paro::bench

int main(int argc, char** argv) {
  const auto parsed = paro::bench::parse_bench_options(argc, argv);
  if (parsed.exit_status) {
    return *parsed.exit_status;
  }
  try {
    return ho::status_after_output("paro-bench", paro::bench::bench(parsed.options));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "paro-bench: %s\n", error.what());
    return 1;
  }
}
