#include "bench/perf/table.hpp"

#include <horing.h>

#include <array>
#include <cinttypes>
#include <cstdio>

#include "bench/harness/columns.hpp"
#include "cli/subcommands/table.hpp"

namespace ho::perf {
namespace {

constexpr std::array<harness::FixedColumn, 9> kFigures{{{"time", "(us)", 11},
                                                        {"algbw", "(GB/s)", 7},
                                                        {"busbw", "(GB/s)", 7},
                                                        {"#wrong", "", 6},
                                                        {"share", "", 6},
                                                        {"overlap", "", 7},
                                                        {"p50", "(us)", 10},
                                                        {"p95", "(us)", 10},
                                                        {"p99", "(us)", 10}}};

std::string cell(const std::optional<double>& value) {
  return value ? fixed(*value, 3) : "-";
}

std::string wrong_cell(const Measurement& row) {
  return row.wrong ? std::to_string(*row.wrong) : "N/A";
}

std::string figures_text(const Measurement& row) {
  const std::array<std::string, kFigures.size()> texts{fixed(row.time_us, 2),
                                                       fixed(row.algorithm_gbps, 3),
                                                       fixed(row.bus_gbps, 3),
                                                       wrong_cell(row),
                                                       cell(row.link_share),
                                                       cell(row.overlap_ratio),
                                                       fixed(row.percentiles_us[0], 2),
                                                       fixed(row.percentiles_us[1], 2),
                                                       fixed(row.percentiles_us[2], 2)};
  return harness::line_of(kFigures, texts);
}

void print_heads(const Options& options) {
  const auto lead = harness::case_columns("root");
  std::string over(harness::heads_of(lead).size() + 1, ' ');
  std::string heads = harness::heads_of(lead) + " ";
  std::string units = harness::units_of(lead) + " ";
  const auto add = [&](std::string title) {
    title.resize(harness::heads_of(kFigures).size(), ' ');
    over += title;
    heads += harness::heads_of(kFigures);
    units += harness::units_of(kFigures);
  };
  if (options.out_of_place) {
    add("   out-of-place");
  }
  if (options.in_place) {
    add("   in-place");
  }
  // The first blank is the comment's mark.
  std::printf("#\n#%s\n#%s\n#%s\n", &over[1], &heads[1], &units[1]);
}

void print_phases(const Measurement& row) {
  const Phases& phases = row.phases;
  std::printf(
      "#   %s, %s: mean per rank and operation: %.1f us = inter %.1f, intra %.1f (of it %.1f "
      "during inter), asleep %.1f; sent %.0f B inter, %.0f B intra; node boundary %s GB/s\n",
      row.in_place ? "in place" : "out of place",
      row.algorithm.c_str(),
      phases.total_us,
      phases.inter_us,
      phases.intra_us,
      phases.overlap_us,
      phases.wait_us,
      phases.inter_sent_bytes,
      phases.intra_sent_bytes,
      cell(row.effective_gbps).c_str());
}

// Only where the row claims something: a tiny one rides on the links' first bursts.
void warn_about_share(const Measurement& row) {
  if (row.share_claimed && row.link_share && *row.link_share > 1.0) {
    std::printf("# warning: %" PRIu64
                " B: a share above 1 means that the measurement is broken (bursts of the shaper); "
                "raise -w and -n\n",
                row.size_bytes);
  }
}

}  // namespace

void print_header(const Job& job, const Options& options) {
  std::printf(
      "# HO-Ring %s %s_perf\n", ho_version(), std::string(to_string(job.collective)).c_str());
  std::printf("# ranks %d  groups %s  %s  algorithm %s  emulation %s\n",
              job.ranks,
              job.groups.c_str(),
              rails_text(job).c_str(),
              std::string(to_string(options.algorithm)).c_str(),
              job.emulation.c_str());
  std::printf("# communicator created in %.0f ms\n", job.startup_ms);
  std::printf("# link limit %s\n", harness::limit_text(job.limit).c_str());
  std::printf("# memory %s\n", memory_text(options.memory).c_str());
  std::printf(
      "# %u operations %s after %u warm-up operations; time: mean of the slowest rank; p50, "
      "p95, p99: of the operations, each the slowest rank's\n",
      options.iterations,
      options.barrier_each ? "each after a barrier" : "back to back",
      options.warmup);
  std::printf(
      "# share: bytes that must cross a node's boundary / limit / time; overlap: part of "
      "the time moving inside groups during which data crossed between groups\n");
  for (const std::string& line : job.rank_lines) {
    std::printf("# %s\n", line.c_str());
  }
  print_heads(options);
  std::fflush(stdout);
}

void print_row(const Row& row, const Options& options) {
  const auto measured = row.measured();
  const Measurement& first = *measured.front();
  const std::array<std::string, 5> lead{std::to_string(first.size_bytes),
                                        std::to_string(first.count),
                                        std::string(to_string(row.what.dtype)),
                                        redop_name(row.what),
                                        std::to_string(kNoRoot)};
  std::string line = harness::line_of(harness::case_columns("root"), lead) + " ";
  for (const Measurement* each : measured) {
    line += figures_text(*each);
  }
  std::printf("%s\n", line.c_str());
  for (const Measurement* each : measured) {
    warn_about_share(*each);
    if (options.phases) {
      print_phases(*each);
    }
  }
  std::fflush(stdout);
}

void print_summary(const std::vector<Row>& rows) {
  const Summary summary = summarize(rows);
  const char* const result = !summary.checked     ? "not checked"
                             : summary.wrong == 0 ? "OK"
                                                  : "FAILED";
  if (summary.unclaimed_shares > 0) {
    std::printf(
        "# note: %u share(s) above 1 are from bursts of the links: too little was moved there to "
        "give a share (20 operations and a tenth of a second's bytes at least)\n",
        summary.unclaimed_shares);
  }
  std::printf("# Out of bounds values : %" PRIu64 " %s\n", summary.wrong, result);
  std::printf("# Avg bus bandwidth    : %g\n", summary.average_bus_gbps);
  std::fflush(stdout);
}

}  // namespace ho::perf
