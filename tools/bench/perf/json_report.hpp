// -J: the results as JSON, with the keys and the nesting of nccl-tests' file, so that what reads
// that one reads this one; docs/reference/json.md lists them with their units. Rank 0 only.
#pragma once

#include <ctime>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/perf/options.hpp"
#include "bench/perf/rows.hpp"

namespace ho::perf {

// When the program ran, seconds since 1970.
struct Times {
  std::time_t started = 0;
  std::time_t ended = 0;
};

[[nodiscard]] nlohmann::ordered_json json_report(const Job& job,
                                                 const Options& options,
                                                 const std::vector<Row>& rows,
                                                 const Times& times);

// False where it cannot be written, which stderr then says.
[[nodiscard]] bool write_json(const std::string& program,
                              const std::string& path,
                              const nlohmann::ordered_json& report);

}  // namespace ho::perf
