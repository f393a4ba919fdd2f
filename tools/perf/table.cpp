#include "perf/table.hpp"

#include <horing.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace ho::perf {
namespace {

std::string cell(const std::optional<double>& value) {
  if (!value) {
    return "-";
  }
  char text[32];
  std::snprintf(text, sizeof(text), "%.3f", *value);
  return text;
}

std::string wrong_cell(const Measurement& row) {
  return row.wrong ? std::to_string(*row.wrong) : "N/A";
}

std::string redop_name(const Row& row) {
  return row.what.collective == Collective::kAllGather ? "none"
                                                       : std::string(to_string(row.what.op));
}

void print_measurement(const Measurement& row) {
  std::printf(" %11.2f %7.3f %7.3f %6s %6s %7s %10.2f %10.2f %10.2f",
              row.time_us,
              row.algorithm_gbps,
              row.bus_gbps,
              wrong_cell(row).c_str(),
              cell(row.link_share).c_str(),
              cell(row.overlap_ratio).c_str(),
              row.percentiles_us[0],
              row.percentiles_us[1],
              row.percentiles_us[2]);
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

void warn_about_share(const Measurement& row) {
  if (row.link_share && *row.link_share > 1.0) {
    std::printf("# warning: %" PRIu64
                " B: a share above 1 means that the measurement is broken (bursts of the shaper); "
                "raise -w and -n\n",
                row.size_bytes);
  }
}

nlohmann::json number_or_null(const std::optional<double>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

// nccl-tests' names (time, alg_bw, bus_bw, nwrong) and the printed columns' names for the same.
nlohmann::json to_json(const Job& job, const Row& row) {
  const Measurement& measured = row.measured;
  const nlohmann::json wrong = measured.wrong ? nlohmann::json(*measured.wrong) : nlohmann::json();
  return {{"collective", to_string(row.what.collective)},
          {"algorithm", measured.algorithm},
          {"groups", job.groups},
          {"size", measured.size_bytes},
          {"count", measured.count},
          {"type", to_string(row.what.dtype)},
          {"redop", redop_name(row)},
          {"root", -1},
          {"in_place", measured.in_place},
          {"time", measured.time_us},
          {"alg_bw", measured.algorithm_gbps},
          {"bus_bw", measured.bus_gbps},
          {"nwrong", wrong},
          {"time_us", measured.time_us},
          {"algbw", measured.algorithm_gbps},
          {"busbw", measured.bus_gbps},
          {"wrong", wrong},
          {"link_share", number_or_null(measured.link_share)},
          {"effective_inter_bw", number_or_null(measured.effective_gbps)},
          {"overlap_ratio", number_or_null(measured.overlap_ratio)},
          {"time_p50", measured.percentiles_us[0]},
          {"time_p95", measured.percentiles_us[1]},
          {"time_p99", measured.percentiles_us[2]},
          {"phases",
           {{"total_us", measured.phases.total_us},
            {"inter_us", measured.phases.inter_us},
            {"intra_us", measured.phases.intra_us},
            {"overlap_us", measured.phases.overlap_us},
            {"wait_us", measured.phases.wait_us},
            {"inter_sent_bytes", measured.phases.inter_sent_bytes},
            {"intra_sent_bytes", measured.phases.intra_sent_bytes}}}};
}

nlohmann::json to_json(const Options& options) {
  nlohmann::json dtypes = nlohmann::json::array();
  for (const DType dtype : options.dtypes) {
    dtypes.push_back(to_string(dtype));
  }
  nlohmann::json ops = nlohmann::json::array();
  for (const ReduceOp op : options.ops) {
    ops.push_back(to_string(op));
  }
  return {{"minbytes", options.min_bytes},
          {"maxbytes", options.max_bytes},
          {"stepbytes", options.step_bytes},
          {"stepfactor", options.step_factor},
          {"iters", options.iterations},
          {"warmup_iters", options.warmup},
          {"check", options.check},
          {"blocking", options.barrier_each},
          {"datatype", dtypes},
          {"op", ops},
          {"algorithm", to_string(options.algorithm)}};
}

}  // namespace

void print_header(const Job& job, const Options& options) {
  std::printf(
      "# HO-Ring %s %s_perf\n", ho_version(), std::string(to_string(job.collective)).c_str());
  std::printf("# ranks %d  groups %s  rails %d  algorithm %s  emulation %s\n",
              job.ranks,
              job.groups.c_str(),
              job.rails,
              std::string(to_string(options.algorithm)).c_str(),
              job.emulation.c_str());
  std::printf("# communicator created in %.0f ms\n", job.startup_ms);
  if (job.limit.bytes_per_second > 0.0) {
    std::printf("# link limit %.2f MB/s per node and direction (%s)\n",
                job.limit.bytes_per_second / 1e6,
                job.limit.how.c_str());
  } else {
    std::printf("# link limit %s\n", job.limit.how.c_str());
  }
  std::printf(
      "# %u operations %s after %u warm-up operations; time: mean of the slowest rank; p50, "
      "p95, p99: of the operations, each the slowest rank's\n",
      options.iterations,
      options.barrier_each ? "each after a barrier" : "back to back",
      options.warmup);
  std::printf(
      "# share: bytes that must cross a node's boundary / limit / time; overlap: part of "
      "the time moving inside groups during which data crossed between groups\n");
  for (const std::string& line : job.places) {
    std::printf("# %s\n", line.c_str());
  }
  const char* const columns =
      "        time   algbw   busbw #wrong  share overlap        p50        p95        p99";
  const auto half = [&](bool wanted, const char* text) {
    if (wanted) {
      std::printf("%-83s", text);
    }
  };
  std::printf("#\n#%50s", "");
  half(options.out_of_place, "   out-of-place");
  half(options.in_place, "   in-place");
  std::printf("\n#%11s %12s %10s %6s %6s ", "size", "count", "type", "redop", "root");
  half(options.out_of_place, columns);
  half(options.in_place, columns);
  std::printf("\n#%11s %12s %10s %6s %6s ", "(B)", "(elements)", "", "", "");
  const char* const units =
      "        (us)  (GB/s)  (GB/s)                            (us)       (us)       (us)";
  half(options.out_of_place, units);
  half(options.in_place, units);
  std::printf("\n");
  std::fflush(stdout);
}

void print_rows(const std::vector<Row>& rows, const Options& options) {
  const Row& first = rows.front();
  std::printf("%12" PRIu64 " %12" PRIu64 " %10s %6s %6d ",
              first.measured.size_bytes,
              first.measured.count,
              std::string(to_string(first.what.dtype)).c_str(),
              redop_name(first).c_str(),
              -1);
  for (const Row& row : rows) {
    print_measurement(row.measured);
  }
  std::printf("\n");
  for (const Row& row : rows) {
    warn_about_share(row.measured);
    if (options.phases) {
      print_phases(row.measured);
    }
  }
  std::fflush(stdout);
}

uint64_t total_wrong(const std::vector<Row>& rows) {
  uint64_t wrong = 0;
  for (const Row& row : rows) {
    wrong += row.measured.wrong.value_or(0);
  }
  return wrong;
}

void print_summary(const std::vector<Row>& rows) {
  double bus = 0.0;
  for (const Row& row : rows) {
    bus += row.measured.bus_gbps;
  }
  const uint64_t wrong = total_wrong(rows);
  const bool checked = std::any_of(
      rows.begin(), rows.end(), [](const Row& row) { return row.measured.wrong.has_value(); });
  const char* const verdict = !checked ? "not checked" : wrong == 0 ? "OK" : "FAILED";
  std::printf("# Out of bounds values : %" PRIu64 " %s\n", wrong, verdict);
  std::printf("# Avg bus bandwidth    : %g\n",
              rows.empty() ? 0.0 : bus / static_cast<double>(rows.size()));
  std::fflush(stdout);
}

bool write_json(const Job& job, const Options& options, const std::vector<Row>& rows) {
  nlohmann::json results = nlohmann::json::array();
  for (const Row& row : rows) {
    results.push_back(to_json(job, row));
  }
  const nlohmann::json limit = job.limit.bytes_per_second > 0.0
                                   ? nlohmann::json(job.limit.bytes_per_second)
                                   : nlohmann::json();
  const nlohmann::json document = {{"version", ho_version()},
                                   {"args", to_json(options)},
                                   {"ranks", job.ranks},
                                   {"groups", job.groups},
                                   {"rails", job.rails},
                                   {"emulation", job.emulation},
                                   {"startup_ms", job.startup_ms},
                                   {"link_limit_bytes_per_second", limit},
                                   {"link_limit_how", job.limit.how},
                                   {"results", results}};
  const std::string text = document.dump(2) + "\n";
  std::ofstream file(options.json_file);
  file << text;
  file.close();
  const bool written = !file.fail();
  if (!written) {
    std::fprintf(stderr,
                 "cannot write %s: %s; give -J a file in a directory that you may write\n",
                 options.json_file.c_str(),
                 std::strerror(errno));
  }
  return written;
}

}  // namespace ho::perf
