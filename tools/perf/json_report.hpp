// -J: the results as JSON, with the keys and the nesting of nccl-tests' file, so that what reads
// that one reads this one; docs/reference/json.md lists them with their units. Rank 0 only.
#pragma once

#include <ctime>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "perf/options.hpp"
#include "perf/rows.hpp"

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

// Whether write_json() will be able to; a message on stderr if not. Changes no file that is there.
[[nodiscard]] bool can_write(const std::string& path);
// Replaces a file that is there, and says so on stdout. False, with a message on stderr, if it
// cannot be written.
[[nodiscard]] bool write_json(const std::string& path, const nlohmann::ordered_json& report);

}  // namespace ho::perf
