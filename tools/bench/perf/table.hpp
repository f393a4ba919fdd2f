// The table on stdout. Rank 0 only.
#pragma once

#include <vector>

#include "bench/perf/options.hpp"
#include "bench/perf/rows.hpp"

namespace ho::perf {

void print_header(const Job& job, const Options& options);
// One line: a size with its out-of-place and in-place measurements, those that were made.
void print_row(const Row& row, const Options& options);
void print_summary(const std::vector<Row>& rows);

}  // namespace ho::perf
