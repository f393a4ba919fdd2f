#include "bench/perf/program.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <horing/communicator.hpp>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/harness/gather.hpp"
#include "bench/harness/link_limit.hpp"
#include "bench/perf/json_report.hpp"
#include "bench/perf/measure.hpp"
#include "bench/perf/options.hpp"
#include "bench/perf/rows.hpp"
#include "bench/perf/table.hpp"
#include "cli/subcommands/option_error.hpp"
#include "cli/subcommands/output_file.hpp"
#include "device/driver.hpp"
#include "os/clock.hpp"

namespace ho::perf {
namespace {

// What all cases are measured with.
struct Measured {
  Job job;
  std::unique_ptr<OnDevice> device;  // null: buffers are the host's
};

// "4x4" where groups are equal, else "3+5+1"; "8" for one group.
std::string groups_text(const horing::Communicator& comm) {
  const int32_t groups = comm.group_count();
  bool equal = true;
  std::string sizes;
  for (int32_t group = 0; group < groups; ++group) {
    equal = equal && comm.group_size(group) == comm.group_size(0);
    sizes += (group == 0 ? "" : "+") + std::to_string(comm.group_size(group));
  }
  if (equal && groups > 1) {
    return std::to_string(groups) + "x" + std::to_string(comm.group_size(0));
  }
  return sizes;
}

std::vector<std::string> rank_lines(const horing::Communicator& comm) {
  std::vector<std::string> lines;
  for (int32_t rank = 0; rank < comm.world_size(); ++rank) {
    const int32_t rail = comm.rail_of(rank);
    lines.push_back("rank " + std::to_string(rank) + ": group " +
                    std::to_string(comm.group_of(rank)) + ", group rank " +
                    std::to_string(comm.group_rank_of(rank)) + ", " +
                    (rail < 0 ? "no rail of its own" : "rail " + std::to_string(rail)));
  }
  return lines;
}

harness::LinkLimit find_limit(horing::Communicator& comm, const Options& options) {
  if (options.link_limit > 0.0) {
    return {.bytes_per_second = options.link_limit, .how = "given with --link-limit-rate"};
  }
  if (!options.measure_link_limit) {
    return {.how = "not measured (--no-link-limit)"};
  }
  return harness::measure_link_limit(comm);
}

void say_left_out(bool talks, const std::string& what) {
  if (talks) {
    std::printf("# %s: left out\n", what.c_str());
  }
}

// All cases that make sense: not every type has every operation, an all-gather has none.
std::vector<Case> cases_of(harness::Collective collective, const Options& options, bool talks) {
  std::vector<Case> cases;
  for (const DType dtype : options.dtypes) {
    if (collective == harness::Collective::kAllGather) {
      cases.push_back({.collective = collective, .dtype = dtype});
      continue;
    }
    for (const ReduceOp op : options.ops) {
      if (reduction_supported(dtype, op)) {
        cases.push_back({.collective = collective, .dtype = dtype, .op = op});
      } else {
        say_left_out(talks,
                     "the library does not reduce " + std::string(to_string(dtype)) + " with " +
                         std::string(to_string(op)));
      }
    }
  }
  return cases;
}

Row run_size(
    Bench& bench, const Case& what, uint64_t count, uint32_t iterations, const Options& options) {
  Row row{.what = what, .out_of_place = {}, .in_place = {}};
  if (options.out_of_place) {
    row.out_of_place = bench.run(count, iterations, false);
  }
  if (options.in_place) {
    row.in_place = bench.run(count, iterations, true);
  }
  return row;
}

void run_case(horing::Communicator& comm,
              const Options& options,
              const Measured& measured,
              const Case& what,
              std::vector<Row>& all) {
  const bool talks = comm.rank() == 0;
  Bench bench(comm, options, measured.job.limit, what, measured.device.get());
  uint64_t previous = 0;
  for (const auto& [size, iterations] : options.sizes()) {
    const uint64_t count = count_for(what, size, static_cast<uint32_t>(comm.world_size()));
    if (count == 0) {
      say_left_out(talks,
                   std::to_string(size) + " B are less than one " +
                       std::string(to_string(what.dtype)) + " per rank");
      continue;
    }
    // Sizes are rounded down to whole elements; in a range, several may become equal.
    if (options.listed_sizes.empty() && count == previous) {
      continue;
    }
    previous = count;
    all.push_back(run_size(bench, what, count, iterations, options));
    if (talks) {
      print_row(all.back(), options);
    }
  }
}

// Collective.
Job job_of(horing::Communicator& comm,
           harness::Collective collective,
           const Options& options,
           double created_ms) {
  Job job;
  job.collective = collective;
  job.ranks = comm.world_size();
  job.rails = comm.rail_count();
  job.nics = harness::nics_per_node(comm);
  job.groups = groups_text(comm);
  job.group_count = comm.group_count();
  job.emulation = harness::emulation_mode();
  for (const double of_rank : harness::gather_all(comm, created_ms)) {
    job.startup_ms = std::max(job.startup_ms, of_rank);
  }
  job.limit = find_limit(comm, options);
  if (options.groups) {
    job.rank_lines = rank_lines(comm);
  }
  return job;
}

// Null where buffers are the host's.
std::unique_ptr<OnDevice> open_device(const horing::Communicator& comm, const Options& options) {
  if (options.memory == Memory::kHost) {
    return nullptr;
  }
  const Result<const device::Driver*> driver = device::driver();
  if (!driver.ok()) {
    throw std::runtime_error(driver.status().to_string());
  }
  return std::make_unique<OnDevice>(**driver, comm.device());
}

std::string program_name(harness::Collective collective) {
  return std::string(to_string(collective)) + "_perf";
}

int run(harness::Collective collective, const Options& options) {
  Times times{.started = std::time(nullptr), .ended = 0};
  const int64_t started = now_ns();
  horing::CommunicatorOptions how;
  how.device = options.memory == Memory::kHost ? HO_DEVICE_NONE : HO_DEVICE_LOCAL_RANK;
  auto comm = horing::Communicator::create(how);
  const auto created_ms = static_cast<double>(now_ns() - started) / 1e6;
  const bool talks = comm.rank() == 0;
  const std::string program = program_name(collective);
  const bool ready = !talks || can_write_file(program.c_str(), "-J", options.json_file);
  if (const auto readiness = harness::gather_all(comm, ready ? 1U : 0U); readiness.front() == 0U) {
    return EXIT_FAILURE;
  }
  const Measured measured{job_of(comm, collective, options, created_ms),
                          open_device(comm, options)};
  const Job& job = measured.job;
  if (talks) {
    print_header(job, options);
  }
  std::vector<Row> rows;
  for (const Case& what : cases_of(collective, options, talks)) {
    run_case(comm, options, measured, what, rows);
  }
  int status = summarize(rows).wrong == 0 && !rows.empty() ? EXIT_SUCCESS : EXIT_FAILURE;
  if (talks && rows.empty()) {
    std::fprintf(
        stderr,
        "%s: nothing was measured, every size or type was left out; see above why, and change "
        "--sizes, -b, -d or -o\n",
        program.c_str());
  } else if (talks) {
    print_summary(rows);
    times.ended = std::time(nullptr);
    if (!options.json_file.empty() &&
        !write_json(program, options.json_file, json_report(job, options, rows, times))) {
      status = EXIT_FAILURE;
    }
  }
  comm.barrier();
  return status;
}

int run_guarded(harness::Collective collective, const Options& options) {
  try {
    return run(collective, options);
  } catch (const horing::Error& error) {
    // What is missing is every rank's error, and each has the same text.
    const bool no_device = options.memory != Memory::kHost && error.status() == HO_UNSUPPORTED;
    if (!no_device || first_rank()) {
      const std::string option = "--memory " + std::string(to_string(options.memory)) + ": ";
      std::fprintf(stderr,
                   "%s: %s%s\n",
                   program_name(collective).c_str(),
                   no_device ? option.c_str() : "",
                   error.what());
    }
    return no_device ? fail_after_first_rank(kUsageError) : EXIT_FAILURE;
  } catch (const std::runtime_error& error) {  // of the device
    std::fprintf(stderr, "%s: %s\n", program_name(collective).c_str(), error.what());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr,
                 "%s: not enough memory for the buffers; lower %s\n",
                 program_name(collective).c_str(),
                 options.listed_sizes.empty() ? "-e" : "the sizes of --sizes");
  }
  return EXIT_FAILURE;
}

}  // namespace

int run_program(harness::Collective collective, int argc, char** argv) {
  const auto parsed = parse_options(collective, argc, argv);
  if (parsed.exit_status) {
    return *parsed.exit_status;
  }
  return run_guarded(collective, parsed.options);
}

}  // namespace ho::perf
