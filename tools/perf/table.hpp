// What a perf program shows: the table on stdout and the JSON file. Rank 0 only.
#pragma once

#include <string>
#include <vector>

#include "perf/link_limit.hpp"
#include "perf/measure.hpp"
#include "perf/options.hpp"

namespace ho::perf {

// The job, for the header lines.
struct Job {
  Collective collective = Collective::kAllGather;
  int32_t ranks = 0;
  int32_t rails = 0;
  std::string groups;  // "4x4", "3+5+1"
  std::string emulation;
  double startup_ms = 0.0;  // creating the communicator, the slowest rank
  LinkLimit limit;
  std::vector<std::string> places;  // --groups: one line per rank
};

struct Row {
  Case what;
  Measurement measured;
};

void print_header(const Job& job, const Options& options);
// One line: a size with its out-of-place and in-place measurements, those that were made.
void print_rows(const std::vector<Row>& rows, const Options& options);
void print_summary(const std::vector<Row>& rows);
[[nodiscard]] uint64_t total_wrong(const std::vector<Row>& rows);

// False, with a message on stderr, if the file cannot be written.
[[nodiscard]] bool write_json(const Job& job, const Options& options, const std::vector<Row>& rows);

}  // namespace ho::perf
